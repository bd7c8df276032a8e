"""The limit on open files: each stream of a load is a connection, of which a process may have a limited number."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence

from lab.study import Load

#: A worker's open files other than a load's streams: databases, logs, pipes, metrics pages.
_BESIDES = 256
#: More than the largest load needs. Engines inherit it, and some close every number below it when they start.
_ENOUGH = 65_536


def raise_limit() -> None:
    """Raise this process's limit on open files, often 1,024 at the start, to the maximum or to enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_most(), _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def problems(loads: Sequence[Load]) -> list[tuple[str, str]]:
    """Return the loads with more streams than a worker on this host can open, as (field, sentence)."""
    most = _most()
    too_many = [(index, load) for index, load in enumerate(loads) if load.max_concurrency + _BESIDES > most]
    return [(f"loads[{index}].max_concurrency", _sentence(load.max_concurrency, most)) for index, load in too_many]


def _sentence(at_once: int, most: int) -> str:
    return (
        f"{at_once} requests at once need {at_once + _BESIDES} open files, and a process may have {most} here "
        f"(ulimit -Hn): ask for {max(most - _BESIDES, 1)} at once, or raise that limit"
    )


def _most() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if hard == resource.RLIM_INFINITY else hard
