"""The browser that `make test` installs, started as every test starts it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from benchmarks.reading.chromium import FLAGS, program

#: The same browser without windows and menus, which nobody sees here and which take a fifth of its processor time.
_SHELL = "chromium-headless-shell"
#: Ends what hangs: a shared machine may stand still for a minute.
PATIENCE_MS = 600_000
expect.set_options(timeout=PATIENCE_MS)
_CONVERSATION = Path(__file__).with_name("conversation.js")
_FLAGS = (
    *FLAGS,
    # A page is drawn a few times: its scripts do not run for as long as optimising them takes, but for some loops; and
    # what they leave behind is not worth collecting before the next page.
    "--js-flags=--no-opt,--invocation-count-for-maglev=5000,--min-semi-space-size=64,--max-semi-space-size=128",
    "--process-per-site",  # a new tab has what the others have loaded
)


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A person's browser, whose profile has the scripts of pages it saw before: the next page takes half as much of a
    processor. Its event loop runs in this thread until it is closed: nothing else may start one here meanwhile.
    """
    scratch = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with (
        tempfile.TemporaryDirectory(prefix="profile-", dir=scratch, ignore_cleanup_errors=True) as profile,
        sync_playwright() as playwright,
    ):
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=program((_SHELL,)),
            args=list(_FLAGS),
            viewport={"width": 1280, "height": 1000},
            reduced_motion="reduce",
        )
        yield _patient(context)
        context.close()


def without_profile(context: BrowserContext) -> Browser:
    """The same browser, whose new contexts know nothing of what this one has seen."""
    assert context.browser is not None
    return context.browser


def another_person(context: BrowserContext, **options: Any) -> BrowserContext:
    """In the same browser, somebody who knows nothing of what this one has seen."""
    return _patient(without_profile(context).new_context(**options))


def _patient(context: BrowserContext) -> BrowserContext:
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(path=_CONVERSATION)
    return context
