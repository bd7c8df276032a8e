"""Part pages: how long a reader waits for each page on a warehouse of ten million requests, and the memory of a
visitor.

`python -m webapp` serves such a home. The server is warm: every page was opened before.

- page to chart: Debian's chromium, its cache filled, goes to each page; timed to the first chart that is there (a table
  or the heading on a page without). By the page list of an app that is open, beside the aim; and by the page's link
  where no app is open, which has Streamlit's own start in the browser in it, beside a bare Streamlit page's.
- first visit on a slow line: the same by the page's link with an empty cache at 1.6 Mbit/s and 150 ms (a browser's
  "slow 4G"), beside the bare page. Aim: 10 s.
- new visitors at once: so many websockets that speak Streamlit's protocol ask for a page in the same moment; timed for
  each from opening the websocket to the end of the page's script. No browser draws, so it is the server's time.
- memory a visitor: how much the server's resident memory grows by visitors who have seen every page and stay.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.reading.chromium import FLAGS, program
from benchmarks.reading.filling import Size, filled_home
from benchmarks.reading.visitors import all_at_once, new_session, open_page, staying, visitor
from benchmarks.table import Row, show
from host.ports import free_port
from host.settings import ENVIRONMENT_PREFIX, Settings
from lab.errors import EngineError

AIM_CHART_S, AIM_VISITORS_S, AIM_VISITOR_MB = 0.5, 1.2, 5.0
AT_ONCE, STAYING = 20, 40
_SLOW = {"latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 200_000}  # ms and bytes/s
_VISITED_FIRST = ("home", "results")
_START_S = 600.0
_BARE = Path(__file__).with_name("bare_page.py")
_BARE_OPTIONS = {
    "STREAMLIT_SERVER_ADDRESS": "127.0.0.1",
    "STREAMLIT_SERVER_HEADLESS": "true",
    "STREAMLIT_SERVER_FILE_WATCHER_TYPE": "none",
    "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
}
#: Parameters of a link besides its page: costs need a price. And the page a reader comes from, which draws nothing.
_QUERIES, _BEFORE = {"cost": "?price=2"}, "dashboards"
_PATIENCE_MS = 600_000.0
#: After a page's script has ended its charts may still be drawing.
_DRAWING_MS = 3_000.0
#: A drawn chart; else a table; else the heading that every page has.
_SHOWN = {
    "chart": '[data-testid="stVegaLiteChart"] :is(canvas, svg)',
    "table": '[data-testid="stDataFrame"] canvas',
    "heading": "h1",
}
#: Injected before the page's own scripts: records the first frame, in ms, in which the selector matches.
_LOOKING = """(selector) => {
    const heading = document.querySelector("h1")?.innerText;
    window.seen = new Promise((found) => {
        const look = () => {
            const there = document.querySelector(selector);
            const fresh = selector !== "h1" || there?.innerText !== heading;
            if (there && fresh) found(performance.now()); else requestAnimationFrame(look);
        };
        look();
    });
}"""
_CLICKING = """(link) => { window.began = performance.now(); link.click(); }"""


def run(settings: Settings, repeats: int, size: Size | None = None) -> None:
    """Fill a warehouse in a home of its own, serve and visit it, and print."""
    with filled_home(settings, size or Size()) as own:
        visit(own, max(repeats, 3))


def visit(settings: Settings, repeats: int) -> None:
    with served(settings) as (url, server):
        _measure(url, server, repeats)


def _measure(url: str, server: psutil.Process, repeats: int) -> None:
    pages = asyncio.run(_warmed(url))
    print(f"pages: {', '.join(map(_name, pages))}", file=sys.stderr)
    listed = {_name(page): page for page in pages if page != _BEFORE}
    with _browser() as browser:
        times = from_page_list(browser, url, listed, repeats, _BEFORE)
    _show("Page to chart, by the page list", "s", AIM_CHART_S, times)
    _show_links(url, {_name(page): page + _QUERIES.get(page, "") for page in pages}, repeats)
    at_once = {f"{AT_ONCE} visitors, {_name(page)}": _at_once(url, page, repeats) for page in pages}
    _show(f"{AT_ONCE} new visitors at once, the median one", "s", AIM_VISITORS_S, at_once)
    _show("Memory", "MB", AIM_VISITOR_MB, {"a visitor": [asyncio.run(_megabytes_a_visitor(url, pages, server))]})


def _show_links(url: str, links: Mapping[str, str], repeats: int) -> None:
    with _browser() as browser:
        times = from_link(browser, url, links, repeats)
    bare_page = serving(("-m", "streamlit", "run", str(_BARE)), _BARE_OPTIONS, "STREAMLIT_SERVER_PORT")
    with bare_page as (bare_url, _), _browser() as browser:
        (bare,) = from_link(browser, bare_url, {"bare": ""}, repeats).values()
        bare_slow = on_slow_line(browser, bare_url, repeats)
    rows = [Row(f"{name} s", values, bare, "none") for name, values in times.items()]
    show("Page to chart, by the page's link", "bare page", rows)
    with _browser() as browser:
        slow = {
            page: on_slow_line(browser, f"{url}/{links[page]}", repeats) for page in _VISITED_FIRST if page in links
        }
    rows = [Row(f"{page} s", values, bare_slow, "none; 10 s") for page, values in slow.items()]
    show("First visit at 1.6 Mbit/s and 150 ms, to the first chart", "bare page", rows)


def _name(page: str) -> str:
    return page or "home"


def _show(title: str, unit: str, aim: float, measured: Mapping[str, Sequence[float]]) -> None:
    rows = [Row(f"{name} {unit}", values, [aim] * len(values), "1 at most") for name, values in measured.items()]
    show(title, "aim", rows)


async def _warmed(url: str) -> tuple[str, ...]:
    """Open every page that the app lists once, and return their paths."""
    async with new_session() as session, visitor(session, url) as websocket:
        first = await open_page(websocket, "")
        for page in first.pages:
            await open_page(websocket, page)
    return first.pages


def _at_once(url: str, page: str, repeats: int) -> list[float]:
    return [statistics.median(asyncio.run(all_at_once(url, page, AT_ONCE))) for _ in range(repeats)]


async def _megabytes_a_visitor(url: str, pages: Sequence[str], server: psutil.Process) -> float:
    """Measure the growth of memory after the first visitors, which fill the server's pools."""
    async with staying(url, pages, AT_ONCE):
        before = server.memory_info().rss
        async with staying(url, pages, STAYING):
            return (server.memory_info().rss - before) / STAYING / 1e6


def served(settings: Settings) -> AbstractContextManager[tuple[str, psutil.Process]]:
    """Run `python -m webapp` on this home."""
    home = {f"{ENVIRONMENT_PREFIX}HOME": str(settings.home.absolute())}
    home[f"{ENVIRONMENT_PREFIX}DATABASE_URL"] = settings.app_database_url
    return serving(("-m", "webapp"), home, f"{ENVIRONMENT_PREFIX}WEB_PORT")


@contextmanager
def serving(
    arguments: Sequence[str], environment: Mapping[str, str], port_name: str
) -> Iterator[tuple[str, psutil.Process]]:
    """Run Python with these arguments, on a free port that it reads from `port_name`."""
    port = free_port()
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


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=program(), args=list(FLAGS))


def from_link(browser: Browser, url: str, links: Mapping[str, str], repeats: int) -> dict[str, list[float]]:
    """Time a navigation to each page by its link, with a warm browser cache, up to its first chart; in seconds.

    `links`: by page. The keys of the result name what was waited for on a page without a chart.
    """
    times = {}
    for name, link in links.items():
        page = _new_page(browser)
        page.goto(f"{url}/{link}")
        shown = _shown_on(page)
        page.add_init_script(f"({_LOOKING})({json.dumps(_SHOWN[shown])})")
        times[f"{name}, {shown}"] = [_opened_s(page, f"{url}/{link}") for _ in range(repeats + 1)][1:]
        page.context.close()
    return times


def on_slow_line(browser: Browser, link: str, repeats: int) -> list[float]:
    """Time first visits, each with an empty cache, up to the first chart; in seconds."""
    times_s = []
    for _ in range(repeats):
        page = _new_page(browser)
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", {"offline": False, **_SLOW})
        began_s = time.monotonic()
        page.goto(link, wait_until="commit")
        page.locator(_SHOWN["chart"]).first.wait_for()
        times_s.append(time.monotonic() - began_s)
        page.context.close()
    return times_s


def _new_page(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(_PATIENCE_MS)
    return page


def _opened_s(page: Page, link: str) -> float:
    page.goto(link)
    seen_ms: float = page.evaluate("window.seen")
    _settle(page)
    return seen_ms / 1000


def from_page_list(
    browser: Browser, url: str, pages: Mapping[str, str], repeats: int, start: str
) -> dict[str, list[float]]:
    """Time a click on each page in the list of pages, with `start` open, up to its first chart; in seconds, keys as
    above.
    """
    times = {}
    page = _new_page(browser)
    page.goto(f"{url}/{start}")
    _settle(page)
    for name, path in pages.items():
        _click(page, path, "heading")
        shown = _shown_on(page)
        times[f"{name}, {shown}"] = [_clicked_s(page, path, shown, start) for _ in range(repeats)]
    page.context.close()
    return times


def _clicked_s(page: Page, path: str, shown: str, start: str) -> float:
    _click(page, start, "heading")
    _settle(page)
    return _click(page, path, shown)


def _click(page: Page, path: str, shown: str) -> float:
    link = page.locator(f'[data-testid="stSidebar"] a[href^="{path}"]')
    page.evaluate(_LOOKING, _SHOWN[shown])
    link.evaluate(_CLICKING)
    seen_ms, began_ms = page.evaluate("window.seen"), page.evaluate("window.began")
    return float(seen_ms - began_ms) / 1000


def _settle(page: Page) -> None:
    page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
    page.locator("h1").first.wait_for()
    page.wait_for_timeout(_DRAWING_MS)


def _shown_on(page: Page) -> str:
    """Return the element to wait for on this page."""
    _settle(page)
    return next(name for name, selector in _SHOWN.items() if page.locator(selector).first.is_visible())
