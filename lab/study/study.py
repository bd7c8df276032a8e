"""A study: a target, the arms that serve it, the prompts and the loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from lab.study.arm import CACHED_ANSWERS, Arm
from lab.study.load import Load
from lab.study.model_base import MOST_PRICE, FlagValue, Frozen, Name
from lab.study.tune import Tune, tuning_problems
from lab.study.workload import Workload

#: What `repeats` says instead of a number, and after how many repeats such a study gives up (engine starts of each arm,
#: if several repeats share one). What it was promised hangs on this number: see `lab.comparison.looks`.
UNTIL_DECIDED, MOST_LOOKS = "until decided", 12

#: The most arms, workloads or loads of a study, and the most runs, which is about two weeks of short ones: a plan is
#: made in memory, by every page that shows the queue.
MOST_PARTS, MOST_RUNS = 500, 10_000
#: The most trials of a search for a capacity in one repeat.
MOST_TRIALS = 12
#: What every generator of random numbers takes, and a number field of a browser, too.
MOST_SEED = 2**32 - 1
#: A year.
MOST_BUDGET_S = 31_536_000


class Sampling(Frozen):
    """Sampling parameters, always sent and stored, because engines' defaults differ. The default is greedy."""

    temperature: float = Field(default=0.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = Field(default=0, ge=0, le=MOST_SEED)


class Slo(Frozen):
    """Bounds on latencies. A request is good if it meets every bound that is set; goodput counts good requests."""

    ttft_ms: float | None = Field(default=None, gt=0, le=1e9)
    tpot_ms: float | None = Field(default=None, gt=0, le=1e9)
    e2e_ms: float | None = Field(default=None, gt=0, le=1e9)


class Study(Frozen):
    """All arms x workloads x loads, `repeats` times.

    An interleaved study starts its engines anew after `repeats_per_launch` repeats. Repeats on one start show how runs
    differ, repeats on several how starts do; `lab.planning` says which is worth its time.

    With `repeats = "until decided"` and `budget = "45 min"` it stops by itself (`lab.schedule.until_decided`). Then
    `repeats` becomes the most that it may have, and `budget_s` is set.
    """

    name: Name
    target: Name
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=MOST_PARTS)
    workloads: tuple[Workload, ...] = Field(min_length=1, max_length=MOST_PARTS)
    loads: tuple[Load, ...] = Field(min_length=1, max_length=MOST_PARTS)
    repeats: int = Field(default=1, ge=1, le=100)
    repeats_per_launch: int = Field(
        default=1, ge=1, le=100
    )  # runs of a cell on one engine start: of an interleaved study, or of one side by side
    order: Literal["interleaved", "fewest_launches", "side_by_side"] = "interleaved"
    #: Which arms get an engine start for each cell and repeat, because their drafts remember answers: a cell would be
    #: measured with what the one before it left behind.
    fresh_starts: Literal["as_declared", "every_cell", "never"] = "as_declared"
    #: Of a study until decided: time for engine starts and runs.
    budget_s: int | None = Field(default=None, ge=1, le=MOST_BUDGET_S)
    seed: int = Field(default=0, ge=0, le=MOST_SEED)
    endpoint: Literal["completions", "chat"] = "completions"
    sampling: Sampling = Sampling()
    slo: Slo = Slo()
    engine_flags: dict[str, FlagValue] = Field(default_factory=dict)
    price_usd_per_hour: float | None = Field(default=None, ge=0, le=MOST_PRICE)
    tune: Tune | None = None  # if set, `repeats` and `order` do not count
    #: Whether no other study is measured on the host meanwhile; None: only on a host without GPUs.
    alone: bool | None = None
    #: Whether the workers of a host share its repeats; those of all arms that belong together stay on one slot.
    spread: bool = False
    hardware: Name | None = None  # runs only on workers whose hardware name contains this; None: on any

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield what does not fit together; only the first is sure to be right."""
        if self.most_runs > MOST_RUNS:
            yield (
                f"{len(self.arms)} arms x {len(self.workloads)} workloads x {len(self.loads)} loads x {self.repeats} "
                f"repeats are up to {self.most_runs:,} runs: a study has at most {MOST_RUNS:,}; split it"
            )
        if self.until_decided and self.tune is not None:
            yield f'tune: a tuning ends by itself: remove repeats = "{UNTIL_DECIDED}" and the budget'
        if self.until_decided and self.order == "fewest_launches":
            yield (
                f'order: a study with repeats = "{UNTIL_DECIDED}" looks at all arms after every repeat: use '
                '"interleaved" or "side_by_side"'
            )
        if self.spread and not (self.runs_are_planned or self.until_decided):
            what = "a search for a capacity" if self.tune is None else "a tuning"
            yield f"spread: each step of {what} follows from the one before it: remove spread"
        for field in ("arms", "workloads", "loads"):
            names = [part.name for part in getattr(self, field)]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                yield f"{field} must differ from each other: {', '.join(map(repr, twice))} occurs twice"
        for load in self.loads:
            if load.find is not None:
                yield from self._problems_of_a_search(load.name)
        yield from self._problems_of_arms()

    def _problems_of_arms(self) -> Iterator[str]:
        marked = [arm.name for arm in self.arms if arm.baseline]
        if len(marked) > 1:
            yield f"arms: only one may be the baseline, but {' and '.join(map(repr, marked))} are marked so"
        if not marked and sum(arm.speculation is None for arm in self.arms) != 1:
            yield "arms: mark the one that the others are compared with as baseline = true"
        if self.tune is not None:
            parts = (self.tune, self.baseline, self.arms, self.loads, len(self.workloads))
            if problems := list(tuning_problems(*parts)):
                yield "; ".join(problems)

    def _problems_of_a_search(self, load: str) -> Iterator[str]:
        if self.tune is not None:
            yield f"load {load} searches for a capacity, which is not part of a tuning: remove its find"
        if self.until_decided:
            yield f"load {load} searches for a capacity: set repeats to a number, without a budget"
        if self.slo == Slo():
            yield f"load {load} searches for the capacity within the SLO: set ttft_ms, tpot_ms or e2e_ms of slo"
        if remembering := [arm.name for arm in self.arms if self.starts_each_cell(arm)]:
            yield (
                f"load {load} sends the same prompts in every trial, and the draft of {remembering[0]!r} remembers its "
                f'answers: set {CACHED_ANSWERS} = 0 in its options, or fresh_starts = "never"'
            )

    def starts_each_cell(self, arm: Arm) -> bool:
        """Whether the arm's engine is started for each of its cells and repeats: else its draft would remember."""
        if arm.server is not None or arm.speculation is None or self.fresh_starts == "never":
            return False
        return self.fresh_starts == "every_cell" or arm.speculation.remembers

    @property
    def most_runs(self) -> int:
        """The most runs that it may take, a search for a capacity with all its trials. Counted, not planned."""
        of_loads = sum(1 if load.find is None else MOST_TRIALS for load in self.loads)
        return len(self.arms) * len(self.workloads) * of_loads * self.repeats

    @property
    def starts_engines(self) -> bool:
        """Whether any of its arms is an engine of the worker, and not a server that runs already."""
        return any(arm.server is None for arm in self.arms)

    @property
    def runs_are_planned(self) -> bool:
        """Whether the number of its runs is known before; else what was measured decides what is measured next."""
        searches = any(load.find is not None for load in self.loads)
        return not (self.until_decided or self.tune is not None or searches)

    @property
    def until_decided(self) -> bool:
        """Whether it stops measuring what is decided, before `repeats` are through."""
        return self.budget_s is not None

    @property
    def baseline(self) -> Arm:
        """The arm marked as baseline, or else the only one without speculation."""
        marked = [arm for arm in self.arms if arm.baseline]
        return marked[0] if marked else next(arm for arm in self.arms if arm.speculation is None)
