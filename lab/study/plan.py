"""Plan a study: its launches and runs, in order."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.study import Arm, Load, Study, Trial, Workload
from lab.study.study import MOST_TRIALS
from lab.study.trial import arrivals_seed, trial_load
from lab.study.tune import drafts

#: Repeats on one start of engines that are up side by side. Starts differ too, and only several of them show how much.
REPEATS_SIDE_BY_SIDE = 2


@dataclass(frozen=True)
class PlannedRun:
    """One execution of a cell: an arm under one workload and one load, in one repeat."""

    arm: Arm
    workload: Workload
    load: Load
    repeat: int
    trial: Trial | None = None  # of a search for a capacity

    @property
    def names(self) -> tuple[str, str, str, int]:
        """Return the names of arm, workload and load, and the repeat: unique within the study."""
        return (self.arm.name, self.workload.name, self.load.name, self.repeat)

    @property
    def cell(self) -> tuple[str, str]:
        """Return the names of workload and load, or of the search for a capacity that it is a trial of."""
        return (self.workload.name, (self.load if self.trial is None else self.trial.search).name)

    def key(self, job_id: str) -> str:
        """Return 16 hex digits that identify this run within its job, the same on every worker and at every attempt."""
        parts = (job_id, *map(str, self.names))
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Launch:
    """The engines that are up together, one for each arm, and the runs measured on them, in order.

    A launch with the index of the one before it continues on the engines that are up.
    """

    index: int
    arms: tuple[Arm, ...]
    runs: tuple[PlannedRun, ...]


def plan(study: Study) -> tuple[Launch, ...]:
    """Return the launches in the study's order; for a search for a capacity the most runs that it may take.

    Interleaved: one launch per arm and repeat (or `repeats_per_launch` repeats), every second time with the arms in
    reverse (A B B A), which keeps a machine that warms up or slows down over the hours from favouring one arm. Fewest
    launches: one per arm. Side by side: the engines of all arms are up together, for two repeats (or
    `repeats_per_launch`) before they are started again, but at least twice if there are two repeats; each cell is
    measured on all arms in a drawn order, so that whatever slows the machine for half a minute slows all of them
    (`lab.schedule.rounds` measures them in several short windows). An arm whose draft remembers answers is started for
    each cell and repeat.
    """
    if study.tune is not None:  # what it measures depends on what it finds: about every setting twice
        settings = [draft.with_tokens(k) for draft in drafts(study.arms, study.tune) for k in study.tune.drafted_tokens]
        blocks = [(arm, repeat) for repeat in range(2) for arm in (study.baseline, *settings)]
        return with_fresh_starts(study, (Launch(0, (arm,), _runs(study, arm, (repeat,))) for arm, repeat in blocks))
    repeats_each = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    shares = [
        tuple(range(study.repeats))[first : first + repeats_each] for first in range(0, study.repeats, repeats_each)
    ]
    if study.order == "side_by_side":
        every = ([run for arm in study.arms for run in _runs(study, arm, share)] for share in shares)
        return with_fresh_starts(study, (Launch(0, study.arms, cell_by_cell(study.seed, runs)) for runs in every))
    alternating = [
        (arm, share)
        for block, share in enumerate(shares)
        for arm in (study.arms if block % 2 == 0 else reversed(study.arms))
    ]
    return with_fresh_starts(study, (Launch(0, (arm,), _runs(study, arm, share)) for arm, share in alternating))


def blocks(study: Study) -> tuple[tuple[Launch, ...], ...]:
    """Group the launches of a study whose runs are planned by the repeats that all arms have on one engine start."""
    each = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    grouped = itertools.groupby(plan(study), lambda launch: launch.runs[0].repeat // each)
    return tuple(tuple(launches) for _, launches in grouped)


def with_fresh_starts(study: Study, launches: Iterable[Launch], first: int = 0) -> tuple[Launch, ...]:
    """Number the launches from `first` on; if an arm's draft remembers, its launch is split by cell and repeat.

    Other cells and repeats send the same prompts, and such a draft would remember the answers.
    """
    parts = (part for launch in launches for part in _parts(study, launch))
    return tuple(replace(part, index=index) for index, part in enumerate(parts, start=first))


def _parts(study: Study, launch: Launch) -> Iterable[Launch]:
    if not any(map(study.starts_each_cell, launch.arms)):
        return (launch,)
    cells: dict[tuple[str, str, int], list[PlannedRun]] = {}
    for run in launch.runs:
        cells.setdefault(run.names[1:], []).append(run)
    return (replace(launch, runs=tuple(runs)) for runs in cells.values())


def repeats_of_a_launch(order: str, repeats_per_launch: int, repeats: int) -> int:
    """Return how many repeats are measured on one engine start, by these fields of a study."""
    if order == "fewest_launches":
        return repeats
    at_least = min(REPEATS_SIDE_BY_SIDE, math.ceil(repeats / 2)) if order == "side_by_side" else 1
    return max(repeats_per_launch, at_least)


def engine_starts(launches: Iterable[Launch]) -> list[Arm]:
    """Return the arms whose engines these launches start, once for each start; a running server is not started."""
    by_index = {launch.index: launch for launch in reversed(list(launches))}
    return [arm for launch in by_index.values() for arm in launch.arms if arm.server is None]


def cell_by_cell(seed: int, runs: Iterable[PlannedRun]) -> tuple[PlannedRun, ...]:
    """Order runs by repeat and cell, a cell's arms in succession, in a drawn order. A search is one cell."""
    blocks: dict[int, dict[tuple[str, str], dict[str, list[PlannedRun]]]] = {}
    for run in runs:
        blocks.setdefault(run.repeat, {}).setdefault(run.cell, {}).setdefault(run.arm.name, []).append(run)
    return tuple(
        run
        for repeat, cells in sorted(blocks.items())
        for cell, arms in cells.items()
        for arm in in_drawn_order(arms, seed, cell, repeat)
        for run in arms[arm]
    )


def in_drawn_order(arms: Iterable[str], seed: int, cell: tuple[str, str], number: int) -> list[str]:
    """Return the arms in the order in which this cell is measured on them for the `number`-th time, from 0.

    Every second order is the reverse of the one before, which is drawn: in a fixed order something periodic on the
    machine would slow the same arm again and again. An order of some of the arms is that of all without the others.
    """
    drawn = sorted(arms, key=lambda arm: draw(seed, *cell, number // 2, arm))
    return drawn if number % 2 == 0 else drawn[::-1]


def draw(*about: object) -> str:
    """Return a text that sorts `about` in a random order, the same on every machine."""
    return hashlib.sha256("\x00".join(map(str, about)).encode()).hexdigest()


def _runs(study: Study, arm: Arm, repeats: tuple[int, ...]) -> tuple[PlannedRun, ...]:
    return tuple(
        run
        for repeat in repeats
        for workload in study.workloads
        for load in study.loads
        for run in _runs_of_load(study, PlannedRun(arm, workload, load, repeat))
    )


def _runs_of_load(study: Study, run: PlannedRun) -> list[PlannedRun]:
    """Return the run itself, or the trials of its search as far as they are known before it: doubling loads."""
    if run.load.find is None:
        return [run]
    loads = [min(run.load.find_start * 2**number, run.load.find_greatest) for number in range(MOST_TRIALS)]
    return [trial_run(study, run, number, load) for number, load in enumerate(loads)]


def trial_run(study: Study, search: PlannedRun, number: int, load: float) -> PlannedRun:
    """Return the trial of this number at this rate or concurrency. `search` has the search's own load."""
    trial = Trial(search=search.load, number=number, arrivals_seed=arrivals_seed(study.seed, search.repeat, number))
    return replace(search, load=trial_load(search.load, number, load), trial=trial)
