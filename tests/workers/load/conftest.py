"""Connections and a misbehaving server for each test, and builders with small defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import Server, serve
from workers.load import connections as connections_module
from workers.load.connections import Connections


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine stands still, no connection has been idle for too long, or broke too late."""
    monkeypatch.setattr(connections_module, "KEEPALIVE_S", 600.0)
    monkeypatch.setattr(connections_module, "_STALE_WITHIN_S", 600.0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve(BEHAVIOURS) as running:
        yield running


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    async with Connections() as opened:
        yield opened
