"""`make screenshots`: every page of a home with results, light and dark, at 1280 px and wide, as PNG files."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from host.settings import load_settings
from tests.chromium import chromium
from tests.webapp.served import served

WIDTHS_PX = (1280, 1920)
_HEIGHT_PX, _MOST_HEIGHT_PX = 1000, 3200
#: Charts grow into their place after the page has settled.
GROWING_MS = 1_000
#: Charts of a closed tab are drawn when it is opened.
_NOTHING_WAITS = """() => !document.querySelector('[data-testid=stSkeleton]')
    && Array.from(document.querySelectorAll('[data-testid=stVegaLiteChart]'))
    .filter(chart => chart.offsetParent !== null)
    .every(chart => chart.querySelector('canvas, svg'))"""
_NOT_IN_TIME = "WebSocket is closed before the connection is established"
_LISTED = "[data-testid=stSidebar] [data-testid=stPageLink-NavLink]"
_MODES: Sequence[Literal["dark", "light"]] = ("dark", "light")


def take(
    browser: BrowserContext,
    url: str,
    folder: Path,
    *,
    widths_px: Sequence[int] = WIDTHS_PX,
    growing_ms: int = GROWING_MS,
    only: Sequence[str] = (),
) -> list[str]:
    """Write PAGE-MODE-WIDTH.png for every page in the navigation, or only for the pages of these names; gives what
    the browser's console complained of.

    The dark pages are opened by the navigation, the light ones by the addresses that it has.
    """
    complaints: list[str] = []
    pages: list[tuple[str, str]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for mode, width_px in itertools.product(_MODES, widths_px):
        page = browser.new_page()
        page.emulate_media(color_scheme=mode)
        page.set_viewport_size({"width": width_px, "height": _HEIGHT_PX})
        listen(page, url, complaints)
        if mode == "dark":
            pages = _pages(page, url)
        for name, link in pages:
            if only and name not in only:
                continue
            (_by_address if mode == "light" else _by_navigation)(page, link)
            _grow(page, width_px)
            page.wait_for_timeout(growing_ms)
            page.screenshot(path=folder / f"{name}-{mode}-{width_px}.png")
            page.set_viewport_size({"width": width_px, "height": _HEIGHT_PX})
        page.close()
    return complaints


def listen(page: Page, url: str, complaints: list[str]) -> None:
    """Add to `complaints` each error in the page's console, and each request to another machine than `url`.

    A tab that an earlier test used may still tell of that test's server, which has ended (the browser asks for its
    icon late), so errors that name another address are left to the requests. Streamlit tries a WebSocket again that a
    busy machine has not opened within 15 seconds.
    """
    page.on("pageerror", lambda error: complaints.append(str(error)))
    ours = (url, url.replace("http", "ws", 1), "data:", "blob:")

    def hear(message: ConsoleMessage) -> None:
        address = message.location["url"]
        if (
            message.type == "error"
            and _NOT_IN_TIME not in message.text
            and (not address.startswith("http") or address.startswith(ours))
        ):
            complaints.append(f"{message.text} ({address})")

    page.on("console", hear)
    page.on(
        "request", lambda request: None if request.url.startswith(ours) else complaints.append(f"asks {request.url}")
    )


def _pages(page: Page, url: str) -> list[tuple[str, str]]:
    """(name for a file, address) of what the navigation offers."""
    page.goto(url)
    settle(page)
    links = page.locator(_LISTED).evaluate_all("all => all.map(a => [a.innerText, a.href])")
    return [(text.strip().splitlines()[-1].strip().lower().replace(" ", "-"), link) for text, link in links]


def _by_address(page: Page, link: str) -> None:
    page.goto(link)


def _by_navigation(page: Page, link: str) -> None:
    path = urlsplit(link).path.strip("/")
    page.locator(f"{_LISTED}[href^='{path}']").click()
    page.wait_for_url(re.compile(rf"/{path}(\?|$)"))


def _grow(page: Page, width_px: int) -> None:
    """As high as what it shows."""
    settle(page)
    height_px = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width_px, "height": min(max(height_px, _HEIGHT_PX), _MOST_HEIGHT_PX)})
    settle(page)


def settle(page: Page) -> None:
    idle = page.locator("[data-testid=stApp][data-test-script-state=notRunning]")
    idle.wait_for()
    page.wait_for_function(_NOTHING_WAITS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the folder for the pictures")
    folder = parser.parse_args().to
    settings = load_settings()
    if not settings.warehouse_file.exists():
        print(
            f"there is nothing to see in {settings.home.absolute()} yet: run `make demo EXIT=1` first", file=sys.stderr
        )
        return 2
    with served({}) as url, chromium() as browser:
        complaints = take(browser, url, folder)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    for complaint in complaints:
        print(f"the browser says: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
