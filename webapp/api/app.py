"""The API as an application: `/api/v1`, with its OpenAPI document at `/api/v1/openapi.json`."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

from lab.roles import Role
from webapp.api import books, dashboards, imports, queue_of_jobs, sql, studies
from webapp.api.calls import AuthorisedCall
from webapp.api.limits import Operation, Turns
from webapp.api.problems import RESPONSES, add_handlers

PREFIX = "/api/v1"


class Me(BaseModel):
    """The visitor and their role."""

    name: str
    role: Role


def api() -> FastAPI:
    """Build the API. It answers requests that the guard has let in."""
    made = FastAPI(
        title="Drafthouse",
        version="1",
        summary="Measure whether a draft model pays, and believe the result.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        responses=RESPONSES,
    )

    made.router.route_class = Operation
    made.state.turns = Turns()

    @made.get("/me", tags=["access"])
    def show_me(call: AuthorisedCall) -> Me:
        """The user behind the token or the session."""
        return Me(name=call.actor.name, role=call.actor.role)

    for subject in (studies, queue_of_jobs, sql, dashboards, books, imports):
        made.include_router(subject.router)
    add_handlers(made)
    return made
