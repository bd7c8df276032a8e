"""A home on each kind of app database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from host.settings import Settings
from tests.postgresql import Server, running_server
from tests.workers.homes import Home, new_home
from warehouse.migrate import migrate


@pytest.fixture(scope="package")
def _server() -> Iterator[Server]:
    with running_server() as it:
        yield it


@pytest.fixture(scope="package")
def _template(_server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    with _server.administration() as admin:
        admin.execute(sa.text("CREATE DATABASE template"))
    home = tmp_path_factory.mktemp("template")
    migrate(Settings(home=home, database_url=_server.url.format(name="template")))
    return "template"


@pytest.fixture(params=["sqlite", "postgresql"])
def either_home(tmp_path: Path, migrated: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    """On SQLite, and on a PostgreSQL server of the tests' own."""
    urls = {}
    if request.param == "postgresql":
        server, template = request.getfixturevalue("_server"), request.getfixturevalue("_template")
        name = f"t{uuid.uuid4().hex}"
        with server.administration() as admin:
            admin.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        urls = {"database_url": server.url.format(name=name)}
    with new_home(tmp_path, migrated, **urls) as it:
        yield it
