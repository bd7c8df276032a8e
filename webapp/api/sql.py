"""`POST /sql`: a question to the warehouse in DuckDB's SQL, answered in the sandbox that the SQL page uses."""

from __future__ import annotations

import io
import json
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter, Body
from pyarrow import csv
from pydantic import BaseModel, Field
from starlette.responses import Response

from warehouse.sandbox.places import PLACES
from warehouse.sandbox.runner import MAX_ROWS, SqlResult, run_sql
from webapp.api.asking import Asking

router = APIRouter(tags=["sql"])
_MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
#: Says in a header that rows were cut, and why.
LEFT_OUT = "X-Drafthouse-Left-Out"


class Statement(BaseModel):
    """One reading statement."""

    sql: str = Field(max_length=100_000)
    format: Literal["json", "csv", "arrow", "parquet"] = "json"
    max_rows: int = Field(default=MAX_ROWS, ge=1, le=1_000_000)


@router.post("/sql", response_class=Response)
def ask(asking: Asking, statement: Annotated[Statement, Body()]) -> Response:
    """Rows as JSON ({columns, rows, left_out}), CSV, an Arrow stream or Parquet."""
    with PLACES.taken(asking.actor.name, asking.settings.sql_timeout_s):
        result = run_sql(asking.settings, statement.sql, statement.max_rows, actor=asking.actor)
        written = _written(result, statement.format)  # takes seconds of this process for a large answer
    headers = {LEFT_OUT: result.left_out} if result.left_out else {}
    return Response(written, media_type=_MEDIA_TYPES[statement.format], headers=headers)


def _written(result: SqlResult, as_format: str) -> bytes:
    if as_format == "json":
        answer = {"columns": result.columns, "rows": result.rows(), "left_out": result.left_out}
        return json.dumps(answer, allow_nan=False).encode()
    sink = io.BytesIO()
    if as_format == "arrow":
        with pa.ipc.new_stream(sink, result.table.schema) as stream:
            stream.write_table(result.table)
    elif as_format == "parquet":
        pq.write_table(result.table, sink)
    else:
        csv.write_csv(result.table, sink)
    return sink.getvalue()
