from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from access import shared_links
from access.shared_links import Kind
from access.web.gate import gate
from access.web.guard import Guard
from access.web.routes import access_routes
from lab.roles import Actor
from tests.actors import VIEWER
from tests.webapp.conftest import MeasuredHome, using_home
from webapp.links.routes import link_routes

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lab:
    """The server's own routes behind its guard, in this process; Streamlit's place is taken by a page."""

    home: MeasuredHome
    database: sa.Engine
    browser: TestClient

    def link(self, kind: Kind, subject: str, actor: Actor = VIEWER, as_of: datetime | None = None) -> str:
        """A link's path."""
        made = shared_links.make_link(self.database, kind, subject, "it", lasts=DAY, most=DAY, actor=actor, as_of=as_of)
        return f"/shared/{made[1]}"


async def page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("a page of the lab")


@pytest.fixture
def lab(measured_home: MeasuredHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """With accounts, on the home that all tests of this process share."""
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    monkeypatch.setenv("DRAFTHOUSE_WEB_FRAME_ANCESTORS", "https://wiki.example.org")
    with using_home(measured_home.settings, monkeypatch):
        ours = gate()
        routes = [
            *access_routes(ours),
            *link_routes(ours),
            WebSocketRoute("/shared/{x:path}", page),
            Route("/{x:path}", page),
        ]
        app = Starlette(routes=routes, middleware=[Middleware(Guard, gate=ours, scripts=())])
        with TestClient(app, "http://127.0.0.1:8501", follow_redirects=False) as browser:
            yield Lab(measured_home, ours.engine, browser)
        ours.engine.dispose()
