"""Errors as problem details (RFC 9457): one sentence for what is wrong, and where."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from lab.errors import AccessError, BusyError, StudyError, UnknownNameError, UserError
from warehouse.app_db.engine import DATABASE_ERRORS, database_words

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("drafthouse.api")
_TITLES = {
    400: "The request cannot be answered",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    411: "The length of the body is missing",
    413: "The body is too long",
    408: "The body did not arrive",
    422: "The request is not valid",
    429: "Too much at once",
    503: "The database does not answer",
}


class FieldProblem(BaseModel):
    """The problem with one field."""

    field: str
    sentence: str


class Problem(BaseModel):
    """The body of every answer that is an error."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    problems: list[FieldProblem] = []


_STATUSES = {UnknownNameError: 404, AccessError: 403, BusyError: 429}
#: Most problems reported for one request.
_MOST_PROBLEMS = 20
#: For the OpenAPI document: error responses that every operation may return.
RESPONSES: dict[int | str, dict[str, object]] = {
    status: {"description": _TITLES[status], "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
    for status in (400, 401, 403, 404, 422, 429, 503)
}


def problem(status: int, detail: str, problems: list[FieldProblem] | None = None) -> JSONResponse:
    title = _TITLES.get(status, "The request cannot be answered")
    body = Problem(title=title, status=status, detail=detail, problems=problems or [])
    return JSONResponse(body.model_dump(), status, media_type=MEDIA_TYPE)


def add_handlers(api: FastAPI) -> None:
    """Answer every error as a problem."""

    @api.exception_handler(UserError)
    async def _user_error(_request: Request, error: UserError) -> JSONResponse:
        if isinstance(error, StudyError):
            return problem(
                422, str(error), [FieldProblem(field=field, sentence=text) for field, text in error.problems]
            )
        status = next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 400)
        return problem(status, str(error))

    @api.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        errors = error.errors()[:_MOST_PROBLEMS]
        found = [FieldProblem(field=".".join(map(str, one["loc"])), sentence=str(one["msg"])) for one in errors]
        return problem(422, "; ".join(f"{one.field}: {one.sentence}" for one in found), found)

    @api.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail))

    async def _database(_request: Request, error: Exception) -> JSONResponse:
        _log.warning("the app database does not answer: %s", database_words(error))
        return problem(503, "The database does not answer: `drafthouse doctor` finds the cause.")

    for away in DATABASE_ERRORS:
        api.add_exception_handler(away, _database)
