"""Who looks at the page: the actor of every change that a page makes."""

from __future__ import annotations

from jobs.access.local import local_actor
from lab.access import Actor, Change, may, may_any


def actor() -> Actor:
    """The person whose browser shows the page."""
    return local_actor("page")


def allowed(change: Change, owner: str | None) -> bool:
    """Whether the page should offer this change of what `owner` owns. The function that makes it decides."""
    return may(actor(), change, owner)


def allowed_any(change: Change) -> bool:
    """Whether the page should offer this change at all."""
    return may_any(actor(), change)
