"""Visitors of the page who speak Streamlit's protocol over a websocket; no browser draws what they get.

`python -m benchmarks.reading.visitors URL` is two of them, who open one page after the other until they are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from host.priority import lower_own_session
from lab.errors import EngineError

#: Timeout of one page.
_PATIENCE_S = 600.0
_VISITORS, _EVERY_S, _PAGES = 2, 1.0, ("", "results", "jobs", "explore")


@dataclass(frozen=True)
class Opened:
    """One page, from the request to the end of its script; `pages` are the paths of all pages of the app."""

    seconds: float
    pages: tuple[str, ...]


def new_session() -> aiohttp.ClientSession:
    """Open a session without a limit of websockets."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


@asynccontextmanager
async def visitor(
    session: aiohttp.ClientSession, url: str, cookie: str = ""
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open a websocket as a browser does for a new visitor, who may have signed in."""
    address = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
    own = {"Origin": url.rstrip("/")} | ({"Cookie": cookie} if cookie else {})
    async with session.ws_connect(address, headers=own, protocols=("streamlit",), max_msg_size=0) as websocket:
        yield websocket


async def open_page(websocket: aiohttp.ClientWebSocketResponse, page: str) -> Opened:
    """Request a page and read until its script has ended. Raises EngineError if it ends otherwise."""
    start_s = time.perf_counter()
    await websocket.send_bytes(_asking_for(page).SerializeToString())
    pages: tuple[str, ...] = ()
    async with asyncio.timeout(_PATIENCE_S):
        async for message in websocket:
            forwarded = ForwardMsg.FromString(message.data)
            kind = forwarded.WhichOneof("type")
            if kind == "navigation":
                pages = tuple(page_info.url_pathname for page_info in forwarded.navigation.app_pages)
            elif kind == "delta":
                _refuse_exception(forwarded, page)
            elif kind == "script_finished":
                return Opened(time.perf_counter() - start_s, pages)
    raise EngineError(f"the connection closed before the end of page {page!r}")


async def all_at_once(url: str, page: str, visitors: int) -> list[float]:
    """Return the seconds until each of this many new visitors has the page, including opening the websocket."""

    async def one(session: aiohttp.ClientSession) -> float:
        start_s = time.perf_counter()
        async with visitor(session, url) as websocket:
            await open_page(websocket, page)
            return time.perf_counter() - start_s

    async with new_session() as session:
        return list(await asyncio.gather(*(one(session) for _ in range(visitors))))


@asynccontextmanager
async def staying(url: str, pages: Sequence[str], visitors: int) -> AsyncIterator[None]:
    """Yield this many visitors, one after the other, who have each opened all these pages and stay on the last."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        for _ in range(visitors):
            websocket = await stack.enter_async_context(visitor(session, url))
            for page in pages:
                await open_page(websocket, page)
        yield


@asynccontextmanager
async def resting(session: aiohttp.ClientSession, url: str, page: str) -> AsyncIterator[None]:
    """Open a page and let it refresh itself, as a browser's tab that nobody touches does."""
    async with visitor(session, url) as websocket:
        tab = asyncio.create_task(_refreshing(websocket, page))
        try:
            yield
        finally:
            tab.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await tab


async def _refreshing(websocket: aiohttp.ClientWebSocketResponse, page: str) -> None:
    """Ask for each part of the page as often as the page says. Raises EngineError if it shows an exception."""
    await websocket.send_bytes(_asking_for(page).SerializeToString())
    parts: dict[str, asyncio.Task[None]] = {}

    async def ask(fragment_id: str, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            asking = _asking_for(page)
            asking.rerun_script.fragment_id, asking.rerun_script.is_auto_rerun = fragment_id, True
            await websocket.send_bytes(asking.SerializeToString())

    try:
        async for message in websocket:
            forwarded = ForwardMsg.FromString(message.data)
            kind = forwarded.WhichOneof("type")
            if kind == "new_session" and not forwarded.metadata.run.fragment_ids:
                for part in parts.values():
                    part.cancel()
                parts.clear()
            elif kind == "auto_rerun":
                about = forwarded.auto_rerun
                if (known := parts.pop(about.fragment_id, None)) is not None:
                    known.cancel()
                parts[about.fragment_id] = asyncio.create_task(ask(about.fragment_id, about.interval))
            elif kind == "delta":
                _refuse_exception(forwarded, page)
    finally:
        for part in parts.values():
            part.cancel()


def _asking_for(page: str) -> BackMsg:
    asking = BackMsg()
    asking.rerun_script.page_name = page
    asking.rerun_script.context_info.timezone = "UTC"
    asking.rerun_script.context_info.locale = "en-US"
    return asking


def _refuse_exception(forwarded: ForwardMsg, page: str) -> None:
    element = forwarded.delta.new_element
    if element.WhichOneof("type") == "exception":
        raise EngineError(f"the page {page!r} shows {element.exception.type}: {element.exception.message}")


async def _visit(url: str) -> None:
    async def one() -> None:
        async with new_session() as session, visitor(session, url) as websocket:
            for page in itertools.cycle(_PAGES):
                await open_page(websocket, page)
                await asyncio.sleep(_EVERY_S)

    await asyncio.gather(*(one() for _ in range(_VISITORS)))


if __name__ == "__main__":
    lower_own_session()  # their browsers are elsewhere
    asyncio.run(_visit(sys.argv[1]))
