"""`POST /sql`: a query on the warehouse in DuckDB's SQL, run in the sandbox of the SQL page."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body
from pydantic import BaseModel, Field
from starlette.responses import Response

from warehouse.sandbox.query_limits import MOST, QUERY_LIMITS
from warehouse.sandbox.runner import MAX_ROWS, run_sql
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import Operation
from webapp.api.sql_formats import written

router = APIRouter(route_class=Operation, tags=["sql"])
_MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
#: Says in a header that rows were cut, and why.
LEFT_OUT = "X-Drafthouse-Left-Out"
#: Queries have threads of their own; waiting takes none.
_ANSWERING = CapacityLimiter(MOST)


class Statement(BaseModel):
    """One read-only statement."""

    sql: str = Field(max_length=100_000)
    format: Literal["json", "csv", "arrow", "parquet"] = "json"
    max_rows: int = Field(default=MAX_ROWS, ge=1, le=1_000_000)


@router.post("/sql", response_class=Response)
async def ask(call: AuthorisedCall, statement: Annotated[Statement, Body()]) -> Response:
    """Run a query; return its rows as JSON ({columns, rows, left_out}), CSV, an Arrow stream or Parquet."""
    async with QUERY_LIMITS.running_without_thread(call.actor.name, call.settings.sql_timeout_s):
        return await to_thread.run_sync(_answer, call, statement, limiter=_ANSWERING)


def _answer(call: Call, statement: Statement) -> Response:
    result = run_sql(call.settings, statement.sql, statement.max_rows, actor=call.actor)
    content, left_out = written(result, statement.format)  # takes seconds of this process for a large answer
    headers = {LEFT_OUT: left_out} if left_out else {}
    return Response(content, media_type=_MEDIA_TYPES[statement.format], headers=headers)
