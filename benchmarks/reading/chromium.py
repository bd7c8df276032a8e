"""This machine's Chromium, for the benchmark and the tests."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from lab.errors import EngineError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
#: Turns off features that pages do not need: the graphics card and the browser's background work.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def program(preferred: Sequence[str] = ()) -> str:
    """Return the path of the first installed Chromium."""
    found = next(filter(None, map(shutil.which, (*preferred, *_NAMES))), None)
    if found is None:
        raise EngineError("no chromium: run bin/install-chromium, as `make test` does")
    return found
