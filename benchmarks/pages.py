"""Part pages: how long a reader waits for each page on a warehouse of ten million requests, and what a visitor costs.

`python -m webapp` serves such a home. Three things are measured, each warm (every page was opened before):

- page to chart: Debian's chromium, its cache filled, goes to each page; timed to the first chart that is there (a table
  or the heading on a page without). By the page list of an app that is open, beside the aim; and by the page's link
  where no app is open, which has Streamlit's own start in the browser in it, beside a bare Streamlit page's.
- new visitors at once: so many websockets that speak Streamlit's protocol ask for a page in the same moment; timed for
  each from opening the websocket to the end of the page's script. No browser draws, so it is the server's time.
- memory a visitor: how much the server's resident memory grows by visitors who have seen every page and stay.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from benchmarks import visitors
from benchmarks.browsing import from_link, from_page_list
from benchmarks.filling import Size, fill
from benchmarks.processes import own_home
from benchmarks.table import Row, show
from lab.errors import EngineError
from warehouse.settings import ENVIRONMENT_PREFIX, Settings

AIM_CHART_S, AIM_VISITORS_S, AIM_VISITOR_MB = 0.5, 1.2, 5.0
AT_ONCE, STAYING = 20, 40
_START_S = 300.0
_BARE = Path(__file__).with_name("bare_page.py")
_BARE_OPTIONS = {
    "STREAMLIT_SERVER_ADDRESS": "127.0.0.1",
    "STREAMLIT_SERVER_HEADLESS": "true",
    "STREAMLIT_SERVER_FILE_WATCHER_TYPE": "none",
    "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
}
#: What a link asks for beyond its page: costs need a price. And the page a reader comes from, which draws nothing.
_QUERIES, _BEFORE = {"cost": "?price=2"}, "dashboards"


def run(settings: Settings, repeats: int, size: Size | None = None) -> None:
    """Fill a warehouse in a home of its own, serve and visit it, and print."""
    with own_home(settings) as own:
        fill(own, size or Size())
        visit(own, max(repeats, 3))


def visit(settings: Settings, repeats: int) -> None:
    with _served(settings) as (url, server):
        _measure(url, server, repeats)


def _measure(url: str, server: psutil.Process, repeats: int) -> None:
    pages = asyncio.run(_warmed(url))
    print(f"pages: {', '.join(map(_name, pages))}", file=sys.stderr)
    listed = {_name(page): page for page in pages if page != _BEFORE}
    _show("Page to chart, by the page list", "s", AIM_CHART_S, from_page_list(url, listed, repeats, _BEFORE))
    _show_links(url, {_name(page): page + _QUERIES.get(page, "") for page in pages}, repeats)
    at_once = {f"{AT_ONCE} visitors, {_name(page)}": _at_once(url, page, repeats) for page in pages}
    _show(f"{AT_ONCE} new visitors at once, the median one", "s", AIM_VISITORS_S, at_once)
    _show("Memory", "MB", AIM_VISITOR_MB, {"a visitor": [asyncio.run(_megabytes_a_visitor(url, pages, server))]})


def _show_links(url: str, links: Mapping[str, str], repeats: int) -> None:
    found = from_link(url, links, repeats)
    with _serving(("-m", "streamlit", "run", str(_BARE)), _BARE_OPTIONS, "STREAMLIT_SERVER_PORT") as (bare_url, _):
        (bare,) = from_link(bare_url, {"bare": ""}, repeats).values()
    rows = [Row(f"{name} s", values, bare, "none") for name, values in found.items()]
    show("Page to chart, by the page's link", "bare page", rows)


def _name(page: str) -> str:
    return page or "home"


def _show(title: str, unit: str, aim: float, measured: Mapping[str, Sequence[float]]) -> None:
    rows = [Row(f"{name} {unit}", values, [aim] * len(values), "1 at most") for name, values in measured.items()]
    show(title, "aim", rows)


async def _warmed(url: str) -> tuple[str, ...]:
    """Open every page that the app lists once, and return their paths."""
    async with visitors.new_session() as session, visitors.visitor(session, url) as websocket:
        first = await visitors.open_page(websocket, "")
        for page in first.pages:
            await visitors.open_page(websocket, page)
    return first.pages


def _at_once(url: str, page: str, repeats: int) -> list[float]:
    return [statistics.median(asyncio.run(visitors.all_at_once(url, page, AT_ONCE))) for _ in range(repeats)]


async def _megabytes_a_visitor(url: str, pages: Sequence[str], server: psutil.Process) -> float:
    """The first visitors fill pools that the server keeps, so only the growth after them counts."""
    async with visitors.staying(url, pages, AT_ONCE):
        before = server.memory_info().rss
        async with visitors.staying(url, pages, STAYING):
            return (server.memory_info().rss - before) / STAYING / 1e6


def _served(settings: Settings) -> AbstractContextManager[tuple[str, psutil.Process]]:
    """Run `python -m webapp` on this home."""
    home = {f"{ENVIRONMENT_PREFIX}HOME": str(settings.home.absolute())}
    return _serving(("-m", "webapp"), home, f"{ENVIRONMENT_PREFIX}WEB_PORT")


@contextmanager
def _serving(
    arguments: Sequence[str], environment: Mapping[str, str], port_name: str
) -> Iterator[tuple[str, psutil.Process]]:
    """Run Python with these arguments, on a free port that it reads from `port_name`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    whole = os.environ | environment | {port_name: str(port)}
    with subprocess.Popen((sys.executable, *arguments), env=whole) as process:
        try:
            _wait_until_healthy(port, process)
            yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
        finally:
            process.terminate()


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _START_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_S)
        try:
            connection.request("GET", "/_stcore/health")
            connection.getresponse().read()
        except ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise EngineError("the page did not start") from None
            time.sleep(0.1)
        else:
            return
        finally:
            connection.close()
