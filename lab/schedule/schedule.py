"""The interfaces of schedules, which map the outcomes so far to the next measurement, or to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
    rounds: Sequence[Value] = ()  # the output throughput of each round, of a run measured in rounds
    engine_start_s: float | None = None  # of the engine that it was measured on
    took_s: float | None = None  # warm-up and window


@dataclass(frozen=True)
class Step:
    """The next measurement, and what may come after it at most: for progress and time left.

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


#: What a block holds, as text for a database; None: it follows from the block's number.
Content = str | None


@dataclass(frozen=True)
class Share:
    """What the next block holds, a sentence on what is known so far (perhaps empty), and what is left of a budget."""

    content: Content
    standing: str = ""
    left_s: float | None = None  # of all slots together, without the blocks that are done


class SharedSchedule(Protocol):
    """Decides which block of its runs the next free slot of several measures. Pure, like `Schedule`.

    A block is the repeats of the arms that belong together: what is compared was measured on one slot. Which of two
    blocks ends first is luck; so what a block holds is decided once and stored. Blocks are numbered from 0 in the order
    in which they were handed out.
    """

    def launches(self, contents: Sequence[Content]) -> list[tuple[Launch, ...]]:
        """Return the launches of each of these blocks, which are the first ones of the study."""

    def later(self, contents: Sequence[Content]) -> tuple[Launch, ...]:
        """Return the most launches that may follow these blocks."""

    def next(
        self, contents: Sequence[Content], done: Collection[int], outcomes_of: Callable[[int], Sequence[Outcome]]
    ) -> Share | End | None:
        """Return the next block to hand out, or the end; None if a block under way has to end first.

        `outcomes_of` reads those of a block that is done, from disk.
        """
