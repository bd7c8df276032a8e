"""The interface of a schedule: it gets the outcomes so far and returns the next step, or the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lab.comparison.samples import Requests
from lab.metrics.measure import Value
from lab.study.plan import Launch, PlannedRun


@dataclass(frozen=True)
class Outcome:
    """A run that was measured, or that failed.

    `is_valid` is the verdict of the checks of a single run; those of the whole study come later. `latencies` are those
    of the run's prompts, by the latency's name (`ttft_ms`, `tpot_ms`, `e2e_ms`). Times are None if unknown: those of a
    run that did not start, or of the start of a server that was running already.
    """

    run: PlannedRun
    launch_index: int
    is_valid: bool
    error: str | None = None  # why it failed
    metrics: Mapping[str, Value] = field(default_factory=dict)  # empty for a run that failed
    latencies: Mapping[str, Requests] = field(default_factory=dict)
    engine_start_s: float | None = None  # of the engine that it was measured on
    took_s: float | None = None  # warm-up and window


@dataclass(frozen=True)
class Step:
    """What is measured next, and at most what comes after that: for progress and time left.

    A launch with the index of the launch before it continues on the same engines. `standing` is a sentence on what is
    known so far, for people who watch the job; empty if there is nothing to say.
    """

    launch: Launch
    later: tuple[Launch, ...] = ()
    later_is_certain: bool = True  # False: outcomes may make it less
    standing: str = ""
    most_s: float | None = None  # the time that this and everything later may take, if the study has a budget
    shared_by: int = 1  # slots that measure what is later side by side


@dataclass(frozen=True)
class End:
    """Nothing more is measured: why, in a word or two for programs and in a sentence for people (perhaps empty)."""

    reason: str
    sentence: str = ""


class Schedule(Protocol):
    """Decides what is measured next. Pure: equal outcomes give equal steps, on every worker and after every crash.

    So it uses no clock: the time spent is the sum of what outcomes took. Each step has a run that was not in any step
    before.
    """

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        """Return what follows these outcomes: one for each run of the steps so far, in the order of those steps.

        Outcomes are read from disk when they are looked at, which takes up to a second each.
        """
        ...
