"""A study: a target, the arms that serve it, the prompts and the loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lab.study.arm import CACHED_ANSWERS, Arm
from lab.study.load import Load
from lab.study.model_base import MOST_PRICE, FlagValue, Frozen, Input, Name
from lab.study.tune import Tune, tuning_problems
from lab.study.workload import Workload

#: The value of `repeats` that is not a number, and the number of repeats after which such a study gives up (engine
#: starts per arm, if several repeats share one). Its promised error rate depends on this number: see
#: `lab.comparison.looks`.
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

    temperature: Annotated[float, Input(step=0.1)] = Field(
        default=0.0, ge=0, le=2, title="Temperature", description="0 is greedy"
    )
    top_p: Annotated[float, Input(step=0.05)] = Field(
        default=1.0, gt=0, le=1, title="Top p", description="Nucleus sampling; 1 keeps all tokens"
    )
    seed: int = Field(default=0, ge=0, le=MOST_SEED, title="Sampling seed", description="Sent with every request")


class Slo(Frozen):
    """Bounds on latencies. A request is good if it meets every bound that is set; goodput counts good requests."""

    ttft_ms: Annotated[float | None, Input(step=50.0)] = Field(
        default=None,
        gt=0,
        le=1e9,
        title="TTFT bound (ms)",
        description="Requests with a longer TTFT are outside the SLO; empty: no bound",
    )
    tpot_ms: Annotated[float | None, Input(step=5.0)] = Field(
        default=None, gt=0, le=1e9, title="TPOT bound (ms)", description="Time per output token; empty: no bound"
    )
    e2e_ms: Annotated[float | None, Input(step=500.0)] = Field(
        default=None, gt=0, le=1e9, title="E2E latency bound (ms)", description="Whole request; empty: no bound"
    )


class Study(Frozen):
    """All arms x workloads x loads, `repeats` times.

    An interleaved study restarts its engines after `repeats_per_launch` repeats. Repeats on one start show how runs
    differ, repeats on several how starts do; `lab.planning` says which is worth its time.

    With `repeats = "until decided"` and `budget = "45 min"` it stops by itself (`lab.schedule.until_decided`). Then
    `repeats` becomes the most that it may have, and `budget_s` is set.
    """

    name: Name = Field(title="Name")
    target: Name = Field(
        title="Target model",
        description="A folder on the worker or a hub name; `reference` is the model included with Drafthouse.",
    )
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=MOST_PARTS)
    workloads: tuple[Workload, ...] = Field(min_length=1, max_length=MOST_PARTS)
    loads: tuple[Load, ...] = Field(min_length=1, max_length=MOST_PARTS)
    repeats: int = Field(
        default=1,
        ge=1,
        le=100,
        title="Repeats",
        description="Runs per cell; a single run gives no confidence interval",
    )
    repeats_per_launch: int = Field(
        default=1,
        ge=1,
        le=100,
        title="Repeats per engine start",
        description="Repeats on one engine start cost no further start and show how runs differ; how starts differ "
        "shows only over several. Side by side: at least two.",
    )
    order: Annotated[
        Literal["interleaved", "fewest_launches", "side_by_side"],
        Input(
            choices={
                "interleaved": "interleaved: A B B A",
                "side_by_side": "all engines up side by side: cell by cell",
                "fewest_launches": "fewest engine starts",
            }
        ),
    ] = Field(
        default="interleaved",
        title="Order of the arms",
        description="Interleaving keeps a machine that is warming up from favouring one arm, at the price of one "
        "engine start per arm and repeat. Side by side, the engines of all arms are up together and only one gets "
        "requests: half as many starts, if the memory holds all of them. What idle engines take is recorded and "
        "judged. Fewest engine starts measures one arm after the other; its repeats say little, as they share a start.",
    )
    fresh_starts: Annotated[
        Literal["as_declared", "every_cell", "never"],
        Input(choices={"as_declared": "for drafts with memory", "every_cell": "for every draft", "never": "never"}),
    ] = Field(
        default="as_declared",
        title="Restart the engine for every cell",
        description="A suffix tree keeps the answers of the process: on one engine start a later cell would replay "
        "those of the cells before. Such an arm gets an engine start for each cell and repeat.",
    )
    budget_s: Annotated[int | None, Input("45 min")] = Field(
        default=None,
        ge=1,
        le=MOST_BUDGET_S,
        title="Stop when decided, at most",
        description="Leave it empty for a fixed number of repeats. With a budget, like 45 min, the study looks at its "
        "verdicts after every repeat and stops measuring what is decided. Looking often makes each verdict a little "
        "stricter.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=MOST_SEED,
        title="Workload seed",
        description="Selects the prompts, their order and their send times",
    )
    endpoint: Literal["completions", "chat"] = Field(
        default="completions",
        title="Endpoint",
        description="The API that requests are sent to: /v1/completions or /v1/chat/completions",
    )
    sampling: Sampling = Field(default=Sampling(), title="Sampling")
    slo: Slo = Field(default=Slo(), title="SLO")
    engine_flags: dict[str, FlagValue] = Field(default_factory=dict, title="Engine flags for every arm")
    price_usd_per_hour: Annotated[float | None, Input(step=0.1)] = Field(
        default=None,
        ge=0,
        le=MOST_PRICE,
        title="Price (USD per hour)",
        description="Of the whole machine; empty: the price book's price",
    )
    tune: Annotated[Tune | None, Input("drafted_tokens = [1, 2, 3, 4, 5]")] = Field(
        default=None,
        title="Tuning: numbers of tokens to try with each draft",
        description="Fill this in to tune: each arm with speculation becomes a candidate draft, and the best number of "
        "tokens for each load is found by measuring, then measured as the engine's own schedule. Repeats and order are "
        "ignored.",
    )
    alone: Annotated[bool | None, Input("default", choices={True: "no, alone", False: "yes"})] = Field(
        default=None,
        title="Share the host",
        description="A host that is divided into slots measures several studies side by side. A study that does not "
        "share waits until nothing else is measured there; so does a host without GPUs by default.",
    )
    spread: Annotated[
        bool | Literal["hosts"],
        Input(choices={False: "one", True: "all of a host", "hosts": "all of like hosts"}),
    ] = Field(
        default=False,
        title="Slots",
        description="The workers of a host, or of hosts with the same hardware, engines and weights, share the "
        "study: each takes the next repeat of all arms, so that what is compared was measured on one slot. Not for a "
        "tuning or a search for a capacity.",
    )
    hardware: Annotated[Name | None, Input("any")] = Field(
        default=None, title="Hardware", description="Part of a worker's hardware name, like H200; empty: any worker"
    )

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
        if self.over_hosts and any(arm.server is not None for arm in self.arms):
            yield 'spread: loads from several hosts would meet at a running server: remove spread = "hosts"'
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
        """Return whether the arm's engine is started for each of its cells and repeats, as its draft would remember."""
        if arm.server is not None or arm.speculation is None or self.fresh_starts == "never":
            return False
        return self.fresh_starts == "every_cell" or arm.speculation.remembers

    @property
    def most_runs(self) -> int:
        """Return the most runs that it may take, a search for a capacity with all its trials. Counted, not planned."""
        of_loads = sum(1 if load.find is None else MOST_TRIALS for load in self.loads)
        return len(self.arms) * len(self.workloads) * of_loads * self.repeats

    @property
    def starts_engines(self) -> bool:
        """Return whether the worker starts the engine of any of its arms."""
        return any(arm.server is None for arm in self.arms)

    @property
    def runs_are_planned(self) -> bool:
        """Return whether the number of its runs is known beforehand; else earlier runs decide what is measured next."""
        searches = any(load.find is not None for load in self.loads)
        return not (self.until_decided or self.tune is not None or searches)

    @property
    def over_hosts(self) -> bool:
        """Return whether workers of several hosts share it."""
        return self.spread == "hosts"

    @property
    def until_decided(self) -> bool:
        """Return whether it stops measuring what is decided before all `repeats` are done."""
        return self.budget_s is not None

    @property
    def baseline(self) -> Arm:
        """Return the arm marked as baseline, or else the only one without speculation."""
        marked = [arm for arm in self.arms if arm.baseline]
        return marked[0] if marked else next(arm for arm in self.arms if arm.speculation is None)
