"""Estimate how long a study takes, from this host's earlier runs and, where there are none, from assumptions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.study import Arm, Workload
from lab.study.plan import WITHOUT_GPU, Assumptions, Launch, PlannedRun, engine_starts, paced_s
from lab.study.session_length import SessionLength, session_length

#: Finds how long the sessions of a workload are.
LengthOf = Callable[[Workload], SessionLength]


@dataclass(frozen=True)
class PastRuns:
    """Completed runs of one kind, with the study's target on its hardware: their median times."""

    engine: str
    method: str  # none without speculation
    num_speculative_tokens: int | None
    dataset: str
    output_tokens: int
    pattern: str  # the load's name
    concurrency: int
    num_prompts: int
    closed_loop: bool
    requests: float  # sent, every turn of a session; fewer if a duration ended the load
    run_s: float  # warm-up and window
    engine_start_s: float | None
    sessions: str | None = None  # the name of how sessions were replayed


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a study in time. The counts from history say how much of it is not assumed."""

    launches: int
    runs: int
    requests: int
    seconds: float  # of one slot
    starts_s: float  # of these, until engines answer
    launches_from_history: int
    runs_from_history: int
    assumed_of: str
    hardware: str  # where the study would run
    at_most: bool = False  # the study stops when it is decided, or when its budget is spent
    blocks: int = 1  # that slots can measure side by side
    slots: int = 1  # that share them

    def within(self, budget_s: float) -> Estimate:
        """The estimate for a study that measures until decided, within this budget."""
        return replace(self, seconds=min(self.seconds, budget_s), at_most=True)

    def shared(self, *, blocks: int, slots: int) -> Estimate:
        """The estimate for a study that is spread over this many slots; each measures whole blocks."""
        return replace(self, blocks=blocks, slots=min(slots, blocks))

    @property
    def wall_s(self) -> float:
        """The seconds from the start of the study to its end, if no other study takes a slot of it."""
        return self.seconds * math.ceil(self.blocks / self.slots) / self.blocks

    @property
    def basis(self) -> str:
        """A phrase that says what `wall_s` is based on."""
        return self._basis if self.slots == 1 else f"{self._basis}; shared by {self.slots} slots"

    @property
    def _basis(self) -> str:
        if self.at_most:
            return "at most: the budget of a study that measures until decided"
        if self.runs_from_history == self.runs:
            return f"from earlier runs of this target on {self.hardware}"
        guess = f"a guess by the speed of {self.assumed_of}"
        if not self.runs_from_history:
            return f"no such run of this target was measured on {self.hardware} yet: {guess}"
        earlier = f"from earlier ones of this target on {self.hardware}"
        return f"{self.runs_from_history} of {self.runs} runs {earlier}, the others are {guess}"


class History:
    """Looks up the most similar past runs: the same cell, or else the same arm at the same concurrency."""

    def __init__(self, past: Sequence[PastRuns] = ()) -> None:
        closed = [runs for runs in past if runs.closed_loop and runs.requests]
        self._cells = _medians((_cell_of_past(runs), runs.run_s) for runs in past)
        self._paces = _medians((_pace_of_past(runs), _token_s(runs)) for runs in closed)
        started = [(runs, runs.engine_start_s) for runs in past if runs.engine_start_s is not None]
        self._starts = _medians((_arm_of_past(runs), start_s) for runs, start_s in started)
        self._any_starts = _medians((runs.engine, start_s) for runs, start_s in started)

    def start_s(self, arm: Arm) -> float | None:
        """Return the seconds until the engine answers: for this arm, or else for its engine with any arm."""
        return self._starts.get(_arm(arm), self._any_starts.get(arm.engine))

    def run_s(self, run: PlannedRun, length: SessionLength | None = None) -> float | None:
        """Return the seconds of warm-up and window; None if its arm was never measured at its concurrency.

        The pace of sessions that were replayed in the same way has their waits in it; else those of `length` are added.
        """
        if (known_s := self._cells.get(_cell(run))) is not None:
            return known_s
        place, length = (*_arm(run.arm), run.load.max_concurrency), length or session_length(run.workload)
        sessions = _sessions(run.workload)
        if sessions is not None and (token_s := self._paces.get((*place, sessions))) is not None:
            return paced_s(run, token_s, length=replace(length, waits_s=0.0))
        token_s = self._paces.get((*place, None))
        return None if token_s is None else paced_s(run, token_s, length=length)


@dataclass
class _Sum:
    seconds: float = 0.0
    known: int = 0
    total: int = 0

    def add(self, known_s: float | None, assumed_s: float) -> None:
        self.seconds += assumed_s if known_s is None else known_s
        self.known += known_s is not None
        self.total += 1


def estimate(
    launches: Sequence[Launch],
    history: History,
    assumed: Assumptions = WITHOUT_GPU,
    *,
    hardware: str = "this hardware",
    length_of: LengthOf = session_length,
) -> Estimate:
    """Estimate launches; each start and each run from the history if it has an answer. `hardware`: whose history.

    `length_of`: how long the sessions of a workload are, if more is known than what the study says.
    """
    starts, runs, requests = _Sum(), _Sum(), 0.0
    for arm in engine_starts(launches):
        starts.add(history.start_s(arm), assumed.start_s)
    for run in (run for launch in launches for run in launch.runs):
        length = length_of(run.workload)
        runs.add(history.run_s(run, length), assumed.run_s(run, length))
        requests += run.load.num_prompts * length.turns
    seconds = starts.seconds + runs.seconds
    return Estimate(
        launches=starts.total,
        runs=runs.total,
        requests=round(requests),
        seconds=seconds,
        starts_s=starts.seconds,
        launches_from_history=starts.known,
        runs_from_history=runs.known,
        assumed_of=assumed.of,
        hardware=hardware,
    )


def _token_s(runs: PastRuns) -> float:
    """Seconds per token. They include reading the prompt, which takes as long in the next run of this kind."""
    return runs.run_s / (math.ceil(runs.requests / runs.concurrency) * runs.output_tokens)


def _arm(arm: Arm) -> tuple[Hashable, ...]:
    draft = arm.speculation
    return (arm.engine, draft.method if draft else "none", draft.num_speculative_tokens if draft else None)


def _arm_of_past(runs: PastRuns) -> tuple[Hashable, ...]:
    return (runs.engine, runs.method, runs.num_speculative_tokens)


def _sessions(workload: Workload) -> str | None:
    return None if workload.sessions is None else workload.sessions.name


def _pace_of_past(runs: PastRuns) -> tuple[Hashable, ...]:
    return (*_arm_of_past(runs), runs.concurrency, runs.sessions)


def _cell(run: PlannedRun) -> tuple[Hashable, ...]:
    load, workload = run.load, run.workload
    prompts = (workload.dataset, workload.output_tokens, _sessions(workload))
    return (*_arm(run.arm), *prompts, load.name, load.max_concurrency, load.num_prompts)


def _cell_of_past(runs: PastRuns) -> tuple[Hashable, ...]:
    prompts = (runs.dataset, runs.output_tokens, runs.sessions)
    return (*_arm_of_past(runs), *prompts, runs.pattern, runs.concurrency, runs.num_prompts)


def _medians(pairs: Iterable[tuple[Hashable, float]]) -> Mapping[Hashable, float]:
    values_of: dict[Hashable, list[float]] = {}
    for key, value in pairs:
        values_of.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in values_of.items()}
