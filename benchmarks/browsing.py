"""One reader with a real browser. The page's own clock is read, so that what drives the browser is not measured."""

from __future__ import annotations

import json
from collections.abc import Mapping

from playwright.sync_api import Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
_PATIENCE_MS = 300_000.0
#: A page that has ended its script may have charts that are not drawn yet.
_DRAWING_MS = 3_000.0
#: A chart with something drawn in it; else a table; else what every page begins with.
_SHOWN = {
    "chart": '[data-testid="stVegaLiteChart"] :is(canvas, svg)',
    "table": '[data-testid="stDataFrame"] canvas',
    "heading": "h1",
}
#: Run in the page before anything of it: the moment of the first frame that has what is looked for, in ms.
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


def from_link(url: str, links: Mapping[str, str], repeats: int) -> dict[str, list[float]]:
    """Seconds from the navigation to a page by its link, the browser's cache filled, to its first chart.

    `links`: by page. The names of the answer say what was waited for where there is no chart.
    """
    times = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        for name, link in links.items():
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.set_default_timeout(_PATIENCE_MS)
            page.goto(f"{url}/{link}")
            what = _shown_on(page)
            page.add_init_script(f"({_LOOKING})({json.dumps(_SHOWN[what])})")
            times[f"{name}, {what}"] = [_opened_s(page, f"{url}/{link}") for _ in range(repeats + 1)][1:]
            page.context.close()
        browser.close()
    return times


def _opened_s(page: Page, link: str) -> float:
    page.goto(link)
    seen_ms: float = page.evaluate("window.seen")
    _settle(page)
    return seen_ms / 1000


def from_page_list(url: str, pages: Mapping[str, str], repeats: int, start: str) -> dict[str, list[float]]:
    """Seconds from the click on a page in the list of pages, with `start` open, to its first chart; named as above."""
    times = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.goto(f"{url}/{start}")
        _settle(page)
        for name, path in pages.items():
            _click(page, url, path, "heading")
            what = _shown_on(page)
            times[f"{name}, {what}"] = [_clicked_s(page, url, path, what, start) for _ in range(repeats)]
        browser.close()
    return times


def _clicked_s(page: Page, url: str, path: str, what: str, start: str) -> float:
    _click(page, url, start, "heading")
    _settle(page)
    return _click(page, url, path, what)


def _click(page: Page, url: str, path: str, what: str) -> float:
    link = page.locator(f'[data-testid="stSidebarNav"] a[href="{url}/{path}"]')
    page.evaluate(_LOOKING, _SHOWN[what])
    link.evaluate(_CLICKING)
    seen_ms, began_ms = page.evaluate("window.seen"), page.evaluate("window.began")
    return float(seen_ms - began_ms) / 1000


def _settle(page: Page) -> None:
    page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
    page.locator("h1").first.wait_for()
    page.wait_for_timeout(_DRAWING_MS)


def _shown_on(page: Page) -> str:
    """What can be waited for there."""
    _settle(page)
    return next(name for name, selector in _SHOWN.items() if page.locator(selector).first.is_visible())
