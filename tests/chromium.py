"""The browser that `make test` installs, started as every test starts it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--js-flags=--no-opt",  # a page is drawn a few times: its scripts do not run for as long as optimising them takes
)


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A person's browser, whose profile has the scripts of pages it saw before: the next page takes half as much of a
    processor. Its event loop runs in this thread until it is closed: nothing else may start one here meanwhile.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    assert program, "no chromium: run bin/install-chromium, as `make test` does"
    scratch = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with (
        tempfile.TemporaryDirectory(prefix="profile-", dir=scratch, ignore_cleanup_errors=True) as profile,
        sync_playwright() as playwright,
    ):
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, args=list(_FLAGS), viewport={"width": 1280, "height": 1000}
        )
        yield context
        context.close()


def without_profile(context: BrowserContext) -> Browser:
    """The same browser, whose new contexts know nothing of what this one has seen."""
    assert context.browser is not None
    return context.browser
