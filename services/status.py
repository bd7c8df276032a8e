"""Whether this home's services run, and where their page is."""

from __future__ import annotations

import fcntl
import urllib.request
from pathlib import Path

from warehouse.settings import Settings


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


def page_answers(settings: Settings) -> bool:
    """Whether the page's health check answers within a second."""
    try:
        with urllib.request.urlopen(f"{page_url(settings)}/healthz", timeout=1) as answer:  # noqa: S310 - our own http address
            return bool(answer.status == 200)
    except OSError:
        return False


def page_url(settings: Settings) -> str:
    """The page's address for a browser on this machine."""
    host = "127.0.0.1" if settings.web_host in ("0.0.0.0", "::") else settings.web_host  # noqa: S104 - compared, not bound
    return f"http://{host}:{settings.web_port}"
