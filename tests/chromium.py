"""The browser that `make test` installs, started as every test starts it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Its event loop runs in this thread until it is closed: nothing else may start one here meanwhile."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, "no chromium: run bin/install-chromium, as `make test` does"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield browser
        browser.close()
