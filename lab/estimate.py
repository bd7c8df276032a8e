"""Estimate how long runs and studies take: from earlier runs of this host, and from assumptions where it has none."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from lab.study import Arm, Workload
from lab.study.duration import rough_duration
from lab.study.plan import Launch, PlannedRun, engine_starts
from lab.study.session_length import SessionLength, session_length

#: Finds how long the sessions of a workload are.
LengthOf = Callable[[Workload], SessionLength]
#: The most tokens that each request of a warm-up generates. All but an engine's first have one request a stream.
_WARMUP_TOKENS = 10
#: A single repeat does not show how much runs vary, so nothing is decided.
_LEAST_REPEATS = 2
#: A dataset that is read does not say here how long its prompts are.
_ASSUMED_INPUT_TOKENS = 200


@dataclass(frozen=True)
class Assumptions:
    """Assumed speed of a machine without measurements: rough, good enough to tell an hour from a day."""

    of: str
    start_s: float
    token_s: float  # per generated token, of a single stream
    slowdown_per_stream: float  # relative slowdown per further stream
    prompt_token_s: float

    def run_s(self, run: PlannedRun, length: SessionLength | None = None) -> float:
        """Estimate the seconds of a run with its warm-up. `length`: of its sessions, where the dataset is known."""
        streams, workload = run.load.max_concurrency, run.workload
        token_s = self.token_s * (1 + self.slowdown_per_stream * (streams - 1))
        warmup_s = min(workload.output_tokens, _WARMUP_TOKENS) * token_s
        prompt_s = (workload.input_tokens or _ASSUMED_INPUT_TOKENS) * self.prompt_token_s
        return warmup_s + streams * prompt_s + paced_s(run, token_s, prompt_s, length)


#: Fitted to the reference pair on two cores.
WITHOUT_GPU = Assumptions("the reference pair on two cores", 35.0, 0.025, 0.2, 0.001)
#: The same for any other model there: a rough guess.
OF_ANOTHER_MODEL = replace(WITHOUT_GPU, of="another model, the reference pair on two cores")
#: Near the published figures of gpt-oss-120b: 180 tok/s alone, some 2,500 tok/s at 200 requests at once.
WITH_GPU = Assumptions("published figures of gpt-oss-120b on one large GPU", 120.0, 0.006, 0.06, 0.0001)


def paced_s(run: PlannedRun, token_s: float, prompt_s: float = 0.0, length: SessionLength | None = None) -> float:
    """Estimate the seconds of a load: waves of concurrent streams, or the arrivals if they are slower.

    `token_s` is the time per token of one stream at this concurrency, `prompt_s` the time to read a prompt. A session
    has its stream for all of its turns and the waits between them; `length` is assumed where it is not given.
    """
    load, length = run.load, length or session_length(run.workload)
    answer_s = run.workload.output_tokens * token_s
    waves = math.ceil(load.num_prompts / load.max_concurrency)
    read_s = load.num_prompts * length.turns * prompt_s
    # when the last request is due; unknown here for a trace without a rate
    due_s = load.ramp_s or (load.num_prompts / load.request_rate_rps if load.request_rate_rps else 0.0)
    took_s = max(waves * (length.turns * answer_s + length.waits_s) + read_s, due_s)
    return took_s if load.duration_s is None else min(took_s, load.duration_s + answer_s)


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
    budget_s: float | None = None  # the study stops when it is decided, or when this is spent
    most_repeats: int = 0  # that it may have until then
    repeat_s: float = 0.0  # of one of them
    blocks: int = 1  # that slots can measure side by side
    slots: int = 1  # that share them

    def within(self, budget_s: float, most_repeats: int) -> Estimate:
        """The estimate for a study that measures until decided, at most this many repeats within this budget."""
        return replace(
            self,
            seconds=min(self.seconds, budget_s),
            budget_s=budget_s,
            most_repeats=most_repeats,
            repeat_s=self.seconds / most_repeats,
        )

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
        shared = "" if self.slots == 1 else f"; shared by {self.slots} slots"
        return f"{self._fitting}{self._source}{shared}"

    @property
    def _fitting(self) -> str:
        """What fits into the budget; empty without one."""
        if self.budget_s is None:
            return ""
        fitting = min(self.most_repeats, math.floor(self.budget_s / self.repeat_s))
        if fitting < _LEAST_REPEATS:
            return (
                f"stops when its budget is spent, which is too short for the {_LEAST_REPEATS} repeats that a verdict "
                f"takes: allow at least {rough_duration(_LEAST_REPEATS * self.repeat_s)}; "
            )
        return f"stops when decided; about {fitting} of at most {self.most_repeats} repeats fit into its budget; "

    @property
    def _source(self) -> str:
        if self.runs_from_history == self.runs:
            return f"from earlier runs of this target on {self.hardware}"
        guess = f"a rough estimate, scaled from {self.assumed_of}"
        if not self.runs_from_history:
            return f"no such run of this target was measured on {self.hardware} yet: {guess}"
        earlier = f"from earlier ones of this target on {self.hardware}"
        return f"{self.runs_from_history} of {self.runs} runs {earlier}, the others are {guess}"


class History:
    """Look-up of the most similar past runs: the same cell, or else the same arm at the same concurrency."""

    def __init__(self, past: Sequence[PastRuns] = ()) -> None:
        cells, paces, starts = (defaultdict[Hashable, list[float]](list) for _ in range(3))
        for runs in past:
            arm = (runs.engine, runs.method, runs.num_speculative_tokens)
            prompts = (runs.dataset, runs.output_tokens, runs.sessions)
            cells[*arm, *prompts, runs.pattern, runs.concurrency, runs.num_prompts].append(runs.run_s)
            if runs.closed_loop and runs.requests:
                # with reading the prompt, which takes as long in the next run of this kind
                token_s = runs.run_s / (math.ceil(runs.requests / runs.concurrency) * runs.output_tokens)
                paces[*arm, runs.concurrency, runs.sessions].append(token_s)
            if runs.engine_start_s is not None:
                starts[arm].append(runs.engine_start_s)
                starts[runs.engine].append(runs.engine_start_s)
        self._cells, self._paces, self._starts = (
            {key: statistics.median(values) for key, values in times.items()} for times in (cells, paces, starts)
        )

    def start_s(self, arm: Arm) -> float | None:
        """Return the seconds until the engine answers: for this arm, or else for its engine with any arm."""
        return self._starts.get(_arm(arm), self._starts.get(arm.engine))

    def run_s(self, run: PlannedRun, length: SessionLength | None = None) -> float | None:
        """Return the seconds of warm-up and window; None if its arm was never measured at its concurrency.

        The pace of sessions that were replayed in the same way includes their waits; else the waits of `length` are
        added.
        """
        load, workload = run.load, run.workload
        sessions = None if workload.sessions is None else workload.sessions.name
        prompts = (workload.dataset, workload.output_tokens, sessions)
        cell = (*_arm(run.arm), *prompts, load.name, load.max_concurrency, load.num_prompts)
        if (known_s := self._cells.get(cell)) is not None:
            return known_s
        key, length = (*_arm(run.arm), load.max_concurrency), length or session_length(workload)
        if sessions is not None and (token_s := self._paces.get((*key, sessions))) is not None:
            return paced_s(run, token_s, length=replace(length, waits_s=0.0))
        token_s = self._paces.get((*key, None))
        return None if token_s is None else paced_s(run, token_s, length=length)


def estimate(
    launches: Sequence[Launch],
    history: History,
    assumed: Assumptions = WITHOUT_GPU,
    *,
    hardware: str = "this hardware",
    length_of: LengthOf = session_length,
) -> Estimate:
    """Estimate launches; each start and each run from the history if it has an answer. `hardware`: whose history.

    `length_of`: how long the sessions of a workload are, if more is known than the study itself states.
    """
    starts = [history.start_s(arm) for arm in engine_starts(launches)]
    starts_s = sum(assumed.start_s if known_s is None else known_s for known_s in starts)
    runs_s = requests = 0.0
    runs = runs_from_history = 0
    for run in (run for launch in launches for run in launch.runs):
        length = length_of(run.workload)
        known_s = history.run_s(run, length)
        runs_s += assumed.run_s(run, length) if known_s is None else known_s
        runs, runs_from_history = runs + 1, runs_from_history + (known_s is not None)
        requests += run.load.num_prompts * length.turns
    return Estimate(
        launches=len(starts),
        runs=runs,
        requests=round(requests),
        seconds=starts_s + runs_s,
        starts_s=starts_s,
        launches_from_history=len(starts) - starts.count(None),
        runs_from_history=runs_from_history,
        assumed_of=assumed.of,
        hardware=hardware,
    )


def _arm(arm: Arm) -> tuple[Hashable, ...]:
    draft = arm.speculation
    return (arm.engine, draft.method if draft else "none", draft.num_speculative_tokens if draft else None)
