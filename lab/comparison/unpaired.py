"""The ratio of two arms that were not alternated, such as arms of different studies: an interval, never a verdict.

Runs of different studies share no block, so nothing that changed between the studies cancels out. The interval holds
only the scatter within each study (Welch 1947, on logarithms, over engine starts).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.comparison.compare import exponential
from lab.comparison.effect import CONFIDENCE, Interval
from lab.comparison.samples import Array, RunSample
from lab.comparison.spread import student
from lab.metrics.number_format import counted


@dataclass(frozen=True)
class Unpaired:
    """The ratio of geometric means; None if an arm has no value. `why` says why else it or its interval is missing."""

    ratio: Interval | None
    why: str
    basis: str = ""


def unpaired(baseline: Sequence[RunSample], candidate: Sequence[RunSample]) -> Unpaired:
    """Compare the runs that have a value. Runs of one engine start are averaged: they are one observation of it."""
    sides = [_starts(baseline), _starts(candidate)]
    if any(not starts for starts in sides):
        return Unpaired(None, "")
    if any(value <= 0 for starts in sides for values in starts for value in values):
        return Unpaired(None, "no ratio: a value is 0")
    logs = [np.array([math.fsum(map(math.log, values)) / len(values) for values in starts]) for starts in sides]
    basis = " and ".join(map(_counted, sides, (baseline, candidate)))
    log_ratio, why = float(logs[1].mean() - logs[0].mean()), _why_no_interval(sides, logs)
    if why:
        return Unpaired(Interval(math.exp(log_ratio), None, None), why, basis)
    half = _half_width(logs)
    return Unpaired(exponential(Interval(log_ratio, log_ratio - half, log_ratio + half)), "", basis)


def _starts(runs: Sequence[RunSample]) -> list[list[float]]:
    """Return the values of each engine start; a run whose start is unknown stands alone."""
    by_start: dict[Hashable, list[float]] = {}
    for run in runs:
        if run.value is not None:
            by_start.setdefault(run.run_id if run.launch is None else ("launch", run.launch), []).append(run.value)
    return list(by_start.values())


def _counted(starts: Sequence[Sequence[float]], runs: Sequence[RunSample]) -> str:
    known = sum(map(len, starts))
    on = "" if any(run.launch is None for run in runs) else f" on {counted(len(starts), 'engine start')}"
    return f"{counted(known, 'run')}{on}"


def _why_no_interval(sides: Sequence[Sequence[Sequence[float]]], logs: Sequence[Array]) -> str:
    few = [len(starts) < 2 for starts in sides]
    if any(few):
        whose = "each" if all(few) else ("of the baseline" if few[0] else "of the other arm")
        single = all(len(starts[0]) == 1 for starts, is_few in zip(sides, few, strict=True) if is_few)
        return f"no interval: one {'run' if single else 'engine start'} {whose}"
    if all(np.ptp(side) == 0 for side in logs):
        return "no interval: all runs of each are equal"
    return ""


def _half_width(logs: Sequence[Array]) -> float:
    """Return half the width of Welch's interval, with the degrees of freedom of Satterthwaite."""
    errors = [float(side.var(ddof=1)) / side.size for side in logs]
    df = sum(errors) ** 2 / sum(error**2 / (side.size - 1) for error, side in zip(errors, logs, strict=True))
    return float(student(df, CONFIDENCE)) * math.sqrt(sum(errors))
