"""This machine's chromium, as the benchmark and the tests start it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from lab.errors import EngineError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
#: Without what is of no use to a page: a graphics card, and what the browser does for itself in the background.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def program(preferred: Sequence[str] = ()) -> str:
    """The path of the first that is installed."""
    found = next(filter(None, map(shutil.which, (*preferred, *_NAMES))), None)
    if found is None:
        raise EngineError("no chromium: run bin/install-chromium, as `make test` does")
    return found
