"""One reader with a real browser."""

from __future__ import annotations

import time
from collections.abc import Sequence

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
_DRAWING_MS = 5_000.0
#: A chart with something drawn in it; else a table; else what every page begins with.
_CHART = '[data-testid="stVegaLiteChart"] :is(canvas, svg)'
_SHOWN = (_CHART, '[data-testid="stDataFrame"] canvas', "h1")


def page_to_chart(url: str, pages: Sequence[str], repeats: int) -> dict[str, list[float]]:
    """Seconds from each page's link to its first chart, by a name that says what was waited for."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(_PATIENCE_MS)
        times = {}
        for path in pages:
            shown = _shown_on(page, f"{url}/{path}")
            name = f"{path or 'home'}, {('chart', 'table', 'heading')[_SHOWN.index(shown)]}"
            times[name] = [_seconds(page, f"{url}/{path}", shown) for _ in range(repeats)]
        browser.close()
    return times


def _shown_on(page: Page, link: str) -> str:
    """What can be waited for there. This first visit fills the browser's cache too."""
    page.goto(link)
    page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
    page.locator("h1").first.wait_for()
    page.wait_for_timeout(_DRAWING_MS)
    return next(each for each in _SHOWN if page.locator(each).first.is_visible())


def _seconds(page: Page, link: str, shown: str) -> float:
    start_s = time.perf_counter()
    page.goto(link, wait_until="commit")
    page.locator(shown).first.wait_for(state="visible")
    return time.perf_counter() - start_s
