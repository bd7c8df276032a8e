"""The API within the test's own process, behind the guard of a lab without a login, or as somebody of a role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from access.web.gate import ACTOR, AGAIN, GATE, Gate
from access.web.guard import Guard
from host.settings import Settings
from lab.roles import Actor, Role
from webapp.api.app import PREFIX, api
from webapp.warehouse_files.routes import warehouse_routes

ROLE = "x-test-role"


class LetIn:
    """Stands where the guard does: everybody is somebody of the role that a header names, or an administrator."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        role = dict(scope.get("headers", ())).get(ROLE.encode(), b"administrator").decode()
        actor = Actor(f"a {role}", Role(role), "api")
        known = {ACTOR: actor, GATE: self._gate, AGAIN: lambda: actor}
        await self._app({**scope, **known}, receive, send)


@contextmanager
def inside(settings: Settings, *, guarded: bool = False) -> Iterator[TestClient]:
    gate = Gate(settings)
    before = Middleware(Guard, gate=gate, scripts=()) if guarded else Middleware(LetIn, gate=gate)
    app = Starlette(routes=[Mount(PREFIX, api()), *warehouse_routes(gate)], middleware=[before])
    with TestClient(app, base_url=f"http://127.0.0.1:{settings.web_port}") as client:
        yield client
    gate.engine.dispose()
