"""`POST /sql`: a query on the warehouse in DuckDB's SQL, run in the sandbox of the SQL page; and saved queries."""

from __future__ import annotations

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response

from lab.errors import UnknownNameError
from warehouse.app_db import saved_views
from warehouse.sandbox.query_limits import MOST, QUERY_LIMITS
from warehouse.sandbox.runner import MAX_ROWS, parameters_of, run_sql
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import Operation
from webapp.api.sql_formats import Format, written

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
_PAGE = "sql"
#: What the address of a saved query may have beside its parameters.
_OWN = ("format", "max_rows")


class Statement(BaseModel):
    """One read-only statement. `parameters` are the values of its `$name`s."""

    sql: str = Field(max_length=100_000)
    parameters: dict[str, Annotated[str, Field(max_length=10_000)]] = Field(default={}, max_length=100)
    format: Format = "json"
    max_rows: int = Field(default=MAX_ROWS, ge=1, le=1_000_000)


class SavedQuery(BaseModel):
    """A query that somebody saved under a name."""

    name: str
    owner: str | None
    sql: str
    parameters: list[str]


@router.post("/sql", response_class=Response)
async def ask(call: AuthorisedCall, statement: Annotated[Statement, Body()]) -> Response:
    """Run a query; return its rows as JSON ({columns, rows, left_out}), CSV, an Arrow stream or Parquet."""
    async with QUERY_LIMITS.running_without_thread(call.actor.name, call.settings.sql_timeout_s):
        return await to_thread.run_sync(_answer, call, statement, limiter=_ANSWERING)


@router.get("/queries")
def list_queries(call: AuthorisedCall) -> list[SavedQuery]:
    """List the saved queries with the parameters that their addresses take."""
    found = [(view, _sql_of(call, view.view_id)) for view in saved_views.named_views(call.database, _PAGE)]
    return [
        SavedQuery(name=view.name, owner=view.owner, sql=sql, parameters=parameters_of(sql))
        for view, sql in found
        if sql is not None
    ]


@router.get("/queries/{name:path}", response_class=Response)
async def run_query(
    call: AuthorisedCall,
    name: str,
    request: Request,
    form: Annotated[Format, Query(alias="format")] = "json",
    max_rows: Annotated[int, Query(ge=1, le=1_000_000)] = MAX_ROWS,
) -> Response:
    """Run a saved query by its name, with its parameters as those of the address: `?arm=EAGLE-3`."""
    sql = await to_thread.run_sync(_named, call, name)
    given = {key: value for key, value in request.query_params.items() if key not in _OWN}
    try:
        statement = Statement(sql=sql, parameters=given, format=form, max_rows=max_rows)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    return await ask(call, statement)


def _named(call: Call, name: str) -> str:
    for view in saved_views.named_views(call.database, _PAGE):
        if view.name == name and (sql := _sql_of(call, view.view_id)) is not None:
            return sql
    raise UnknownNameError(f"no query is saved under {name!r}: GET /queries lists them")


def _sql_of(call: Call, view_id: str) -> str | None:
    state = saved_views.load(call.database, _PAGE, view_id)
    return None if state is None else str(state["sql"])


def _answer(call: Call, statement: Statement) -> Response:
    result = run_sql(
        call.settings, statement.sql, statement.max_rows, actor=call.actor, parameters=statement.parameters
    )
    content, left_out = written(result, statement.format)  # takes seconds of this process for a large answer
    headers = {LEFT_OUT: left_out} if left_out else {}
    return Response(content, media_type=_MEDIA_TYPES[statement.format], headers=headers)
