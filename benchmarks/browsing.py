"""One reader with a real browser. Times come from the page's own clock, which excludes the browser's driver."""

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


def from_link(url: str, links: Mapping[str, str], repeats: int) -> dict[str, list[float]]:
    """Time a navigation to each page by its link, with a warm browser cache, up to its first chart; in seconds.

    `links`: by page. The keys of the result name what was waited for on a page without a chart.
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
    """Time a click on each page in the list of pages, with `start` open, up to its first chart; in seconds, keys as
    above.
    """
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
    """Return what can be waited for on this page."""
    _settle(page)
    return next(name for name, selector in _SHOWN.items() if page.locator(selector).first.is_visible())
