"""Format figures for the sentences of findings."""

from __future__ import annotations

from collections.abc import Sequence


def percent(share: float) -> str:
    """Format a share: 0.125 as "12.5 %"."""
    return f"{100 * share:.3g} %"


def ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def of_requests(part: int, whole: int) -> str:
    return f"{part} of {whole} {'request' if whole == 1 else 'requests'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join the first few names and count the rest."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def lost_words(failed: int, invalid: int, ended: int | None = None) -> str:
    """Return lost runs in words: `2 failed, 1 invalid`, or of the runs that ended: `2 of 12 runs failed, 1 invalid`."""
    lost = [(number, how) for number, how in ((failed, "failed"), (invalid, "invalid")) if number]
    of = "" if ended is None else f" of {ended} run{'s' * (ended != 1)}"
    return ", ".join(f"{number}{'' if place else of} {how}" for place, (number, how) in enumerate(lost))
