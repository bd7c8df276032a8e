"""A session and a misbehaving server for each test, and builders with small defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import Server, serve
from workers.load.client import open_session


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve(BEHAVIOURS) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened
