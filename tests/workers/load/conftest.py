"""Connections and a misbehaving server for each test, and builders with small defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import Server, serve
from workers.load.connections import Connections


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve(BEHAVIOURS) as running:
        yield running


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    async with Connections() as opened:
        yield opened
