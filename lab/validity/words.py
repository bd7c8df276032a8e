"""Format figures for the sentences of findings."""

from __future__ import annotations


def percent(share: float) -> str:
    """Format a share: 0.125 as "12.5 %"."""
    return f"{100 * share:.3g} %"


def ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def of_requests(part: int, whole: int) -> str:
    return f"{part} of {whole} {'request' if whole == 1 else 'requests'}"


def listed(names: list[str], most: int = 3) -> str:
    """Join the first few names and count the rest."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
