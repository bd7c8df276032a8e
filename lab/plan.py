"""From a study to ordered launches and runs."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from lab.study import Arm, Load, Study, Workload

#: Rough seconds until an engine answers, and per generated token of one stream, before a host has a history.
ASSUMED_START_S = 35.0
ASSUMED_TPOT_S = 0.025
#: How much one more concurrent stream slows all of them; fitted to the reference pair on two cores.
ASSUMED_SLOWDOWN_PER_STREAM = 0.2


@dataclass(frozen=True)
class PlannedRun:
    """One execution of a cell: an arm under one workload and one load, in one repeat."""

    arm: Arm
    workload: Workload
    load: Load
    repeat: int

    def key(self, job_id: str) -> str:
        """16 hex digits that name this run within its job: the same on every worker and at every attempt."""
        parts = (job_id, self.arm.name, self.workload.name, self.load.name, str(self.repeat))
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Launch:
    """One engine start and the runs measured on it, in order."""

    index: int
    arm: Arm
    runs: tuple[PlannedRun, ...]


def plan(study: Study) -> tuple[Launch, ...]:
    """The launches in the order that the study asks for.

    Interleaved: one launch per arm and repeat, every second repeat with the arms in reverse (A B B A), which keeps a
    machine that warms up or slows down over the hours from favouring one arm. Fewest launches: one per arm.
    """
    repeats = range(study.repeats)
    if study.order == "fewest_launches":
        blocks = [(arm, tuple(repeats)) for arm in study.arms]
    else:
        blocks = [(arm, (r,)) for r in repeats for arm in (study.arms if r % 2 == 0 else reversed(study.arms))]
    return tuple(Launch(index, arm, _runs(study, arm, block)) for index, (arm, block) in enumerate(blocks))


def _runs(study: Study, arm: Arm, repeats: tuple[int, ...]) -> tuple[PlannedRun, ...]:
    return tuple(
        PlannedRun(arm, workload, load, repeat)
        for repeat in repeats
        for workload in study.workloads
        for load in study.loads
    )


def estimate_s(launches: tuple[Launch, ...]) -> float:
    """About how long the launches take, in seconds, before anything was measured on this host."""
    return sum(ASSUMED_START_S + sum(estimate_run_s(run) for run in launch.runs) for launch in launches)


def estimate_run_s(run: PlannedRun) -> float:
    """About how long one run takes, in seconds: waves of concurrent streams, or the arrivals where they are slower."""
    streams = run.load.max_concurrency
    token_s = ASSUMED_TPOT_S * (1 + ASSUMED_SLOWDOWN_PER_STREAM * (streams - 1))
    served_s = math.ceil(run.load.num_prompts / streams) * run.workload.output_tokens * token_s
    arriving_s = run.load.num_prompts / run.load.request_rate_rps if run.load.request_rate_rps else 0.0
    return max(served_s, arriving_s)
