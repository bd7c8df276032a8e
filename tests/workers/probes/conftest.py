"""A server that takes connections and never answers; and time for those that do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from workers.probes import engine_metrics


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may take its time to say its gauges."""
    monkeypatch.setattr(engine_metrics, "_GAUGE_TIMEOUT_S", 600.0)


@pytest_asyncio.fixture
async def silent_server() -> AsyncIterator[str]:
    over = asyncio.Event()

    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    over.set()
    server.close()
