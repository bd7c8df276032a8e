"""A trial: one run of a search for a capacity, at a rate or a concurrency that the search chose."""

from __future__ import annotations

from lab.study.load import Load
from lab.study.model_base import Frozen

#: The characters of a search's name in those of its trials, whose numbers have to fit behind it.
_NAME_KEPT = 180


class Trial(Frozen):
    """Which search a run belongs to, by its load, and which of its runs in this repeat it is, from 0.

    Each trial has arrivals of its own, so that no search depends on the luck of one pattern; trials of two arms
    with the same number and repeat have equal arrivals.
    """

    search: Load
    number: int
    arrivals_seed: int


def trial_load(search: Load, number: int, load: float) -> Load:
    """Return the load of a trial at this request rate or concurrency."""
    label = f"{search.name[:_NAME_KEPT]} #{number + 1} at {load:g}"
    chosen = {"request_rate_rps": load} if search.find == "rate" else {"max_concurrency": int(load)}
    given = search.model_dump(exclude={"label", "find", "slo_share", "find_from", "find_to"})
    return Load.model_validate(given | chosen | {"label": label})


def arrivals_seed(study_seed: int, repeat: int, number: int) -> int:
    return study_seed + 1 + 1000 * repeat + number
