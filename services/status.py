"""Whether this home's services run."""

from __future__ import annotations

import fcntl
import urllib.request
from pathlib import Path


def is_up(home: Path) -> bool:
    """Whether a `drafthouse up` holds this home's lock."""
    lock = home / "up.lock"
    if not lock.exists():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def page_answers(page_url: str) -> bool:
    """Whether the page's health check answers within a second."""
    try:
        with urllib.request.urlopen(f"{page_url}/healthz", timeout=1) as answer:  # noqa: S310 - our own http address
            return bool(answer.status == 200)
    except OSError:
        return False
