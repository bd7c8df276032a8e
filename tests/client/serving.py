"""A lab whose login, API and warehouse a real server sends: without pages, in the test's own process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

import drafthouse
from access import accounts, tokens
from access.web.gate import Gate
from access.web.guard import Guard
from access.web.routes import access_routes
from host.settings import Settings
from lab.roles import Role
from tests.actors import ADMIN
from tests.webapp.homes import make_home
from warehouse.app_db.engine import app_engine
from webapp.api.app import PREFIX, api
from webapp.warehouse_files.client_file import client_route
from webapp.warehouse_files.routes import warehouse_routes


@dataclass(frozen=True)
class Served:
    settings: Settings
    url: str
    tokens: dict[Role, str]

    def client(self, role: Role = Role.VIEWER) -> drafthouse.Lab:
        return drafthouse.connect(self.url, self.tokens[role])


@contextmanager
def lab_elsewhere(folder: Path) -> Iterator[Served]:
    """One user of each role, with a token; their names are the roles'."""
    settings = make_home(folder).model_copy(update={"web_login": "accounts"})
    database, secrets = app_engine(settings.app_database_url), {}
    for role in Role:
        accounts.add_user(database, role.value, role, actor=ADMIN)
        secrets[role] = tokens.add_token(database, role.value, "tests", role, actor=ADMIN)[1]
    database.dispose()
    with serving(settings) as url:
        yield Served(settings, url, secrets)


@contextmanager
def serving(settings: Settings, port: int = 0) -> Iterator[str]:
    gate = Gate(settings)
    routes = [*access_routes(gate), Mount(PREFIX, api()), *warehouse_routes(gate), client_route()]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, gate=gate, scripts=())])
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()
    gate.engine.dispose()
