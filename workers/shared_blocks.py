"""The blocks of a job shared by several workers, as seen by one of them."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from host.settings import Settings
from jobs.engines.hardware import nvidia_gpus
from jobs.fleet.blocks import (
    Block,
    IsDead,
    Likeness,
    claim_block,
    handed_out,
    release_blocks,
    reopen_block,
)
from jobs.table import Job
from lab.schedule import Content, End, Outcome, Share, Step, shared_schedule
from lab.study.plan import Launch
from warehouse.bundles.store import StoreAway
from warehouse.bundles.uploads import fetch_job
from workers.outcomes import Outcomes
from workers.run_environment import likeness_here
from workers.run_recorder import bundle_of

#: How long a finished block's bundles may take to come from another host.
_AWAITED_FOR_S = 600.0


@dataclass(frozen=True)
class View:
    """The blocks claimed so far, those that are done and whose bundles are here, and the next block for a free slot;
    None if it has to wait.
    """

    blocks: Sequence[Block]
    done: Collection[int]
    next_block: Share | End | None

    @property
    def contents(self) -> list[Content]:
        return [block.content for block in self.blocks]


@dataclass(frozen=True)
class Claimed:
    """A block claimed by this worker, as steps, and its number, from 0."""

    number: int
    steps: tuple[Step, ...]


class SharedBlocks:
    """Shows the blocks of one attempt of a job, and claims them.

    `is_own`: the job is this worker's, which lets blocks whose bundles are lost be measured again. `check` raises if
    this worker must stop.
    """

    def __init__(
        self,
        settings: Settings,
        database: sa.Engine,
        job: Job,
        worker: str,
        *,
        is_dead: IsDead,
        is_own: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._database, self.job = settings, database, job
        self._worker, self._is_dead, self._is_own, self._check = worker, is_dead, is_own, check
        self._schedule = shared_schedule(job.study)
        self._outcomes: dict[int, Sequence[Outcome]] = {}  # of blocks that are done
        self._here = set[int]()  # blocks that are done, and whose bundles are here
        self._awaited_since_s: dict[int, float] = {}  # blocks that are done elsewhere, time.monotonic
        self._likeness: Likeness | None = None
        self._claim_unknown = False  # the last claim may have got a block

    def view(self) -> View:
        """Return the claimed blocks, and the next one by the outcomes of finished blocks.

        A block counts as under way until its bundles are here: they may be on the way from another host.
        """
        blocks = handed_out(self._database, self.job)
        contents = [block.content for block in blocks]
        if awaited := [number for number, block in enumerate(blocks) if block.is_done and number not in self._here]:
            with contextlib.suppress(StoreAway):
                fetch_job(self._settings, self._database, self.job.job_id)
            launches = self._schedule.launches(contents)
            for number in awaited:
                self._await(number, blocks[number].host, launches[number])
        outcomes_of = functools.partial(self._outcomes_of, blocks)
        return View(blocks, frozenset(self._here), self._schedule.next(contents, self._here, outcomes_of))

    def _await(self, block: int, host: str, launches: Sequence[Launch]) -> None:
        """See whether the bundles of a finished block are here; those that do not come are measured again."""
        runs = [run for launch in launches for run in launch.runs]
        since_s = self._awaited_since_s.setdefault(block, time.monotonic())
        if all(bundle_of(self._settings.bundles, self.job, run, host) is not None for run in runs):
            self._here.add(block)
        elif self._is_own and time.monotonic() - since_s > _AWAITED_FOR_S:
            reopen_block(self._database, self.job, block, self._worker)
            del self._awaited_since_s[block]

    def claim(self, view: View) -> Claimed | None:
        """Claim a block that no worker holds, or else the next one; None if there is none now. Raises UnlikeHost."""
        next_block = view.next_block
        contents = [*view.contents, *([next_block.content] if isinstance(next_block, Share) else [])]
        if self.job.over_hosts and self._likeness is None:
            self._likeness = likeness_here(self._settings, self.job.study, self._check)
        if self._claim_unknown:
            release_blocks(self._database, self.job, self._worker)
        self._claim_unknown = True
        number = claim_block(
            self._database,
            self.job,
            self._worker,
            self._settings.lease_s,
            contents=contents,
            is_dead=self._is_dead,
            likeness=self._likeness,
            has_gpus=bool(nvidia_gpus()),
        )
        self._claim_unknown = False
        if number is None:
            return None
        taken = contents if number == len(view.contents) else view.contents
        launches = self._schedule.launches(taken)
        others = set(range(len(launches))) - {number, *view.done}
        later = [launch for other in sorted(others) for launch in launches[other]]
        later += self._schedule.later(taken)
        return Claimed(number, tuple(self._steps(launches[number], later, next_block, shared_by=1 + len(others))))

    def launches(self, view: View) -> list[tuple[Launch, ...]]:
        """Return the launches of each claimed block."""
        return self._schedule.launches(view.contents)

    def _steps(
        self, own: Sequence[Launch], later: Sequence[Launch], next_block: Share | End | None, shared_by: int
    ) -> Iterator[Step]:
        known = next_block if isinstance(next_block, Share) else Share(None)
        for number, launch in enumerate(own, start=1):
            yield Step(
                launch,
                (*own[number:], *later),
                later_is_certain=self.job.study.runs_are_planned,
                standing=known.standing,
                most_s=None if known.left_s is None else known.left_s / shared_by,
                shared_by=shared_by,
            )

    def _outcomes_of(self, blocks: Sequence[Block], block: int) -> Sequence[Outcome]:
        """Return the outcomes of a finished block, read once."""
        if block not in self._outcomes:
            bundle = functools.partial(bundle_of, self._settings.bundles, self.job, host=blocks[block].host)
            outcomes = Outcomes(bundle)
            for launch in self._schedule.launches([each.content for each in blocks])[block]:
                outcomes.add(launch.runs, launch.index)
            self._outcomes[block] = outcomes
        return self._outcomes[block]
