"""The blocks of a job shared by several workers, as seen by one of them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from host.settings import Settings
from jobs.fleet.blocks import IsDead, claim_block, handed_out, release_blocks
from jobs.table import Job
from lab.schedule import Content, End, Outcome, Share, Step, shared_schedule
from lab.study.plan import Launch
from warehouse.bundles.uploads import fetch_job
from workers.outcomes import Outcomes
from workers.run_recorder import bundle_of


@dataclass(frozen=True)
class View:
    """The blocks claimed so far, and the next block for a free slot; None if it has to wait."""

    contents: Sequence[Content]
    done: Collection[int]
    next_block: Share | End | None


@dataclass(frozen=True)
class Claimed:
    """A block claimed by this worker, as steps, and its number, from 0."""

    number: int
    steps: tuple[Step, ...]


class SharedBlocks:
    """Shows the blocks of one attempt of a job, and claims them."""

    def __init__(self, settings: Settings, database: sa.Engine, job: Job, worker: str, *, is_dead: IsDead) -> None:
        self._settings, self._database, self.job = settings, database, job
        self._worker, self._is_dead = worker, is_dead
        self._schedule = shared_schedule(job.study)
        self._outcomes: dict[int, Sequence[Outcome]] = {}  # of blocks that are done
        self._fetched = set[int]()  # blocks that were done when bundles of other hosts were fetched last
        self._claim_unknown = False  # the last claim may have got a block

    def view(self) -> View:
        """Return the claimed blocks, and the next one by the outcomes of finished blocks."""
        blocks = handed_out(self._database, self.job)
        contents = [block.content for block in blocks]
        done = {number for number, block in enumerate(blocks) if block.is_done}
        if done - self._fetched:
            fetch_job(self._settings, self._database, self.job.job_id)
            self._fetched = done
        outcomes_of = functools.partial(self._outcomes_of, contents)
        return View(contents, done, self._schedule.next(contents, done, outcomes_of))

    def claim(self, view: View) -> Claimed | None:
        """Claim a block that no worker holds, or else the next one; None if there is none now."""
        next_block = view.next_block
        contents = [*view.contents, *([next_block.content] if isinstance(next_block, Share) else [])]
        lease_s = self._settings.lease_s
        if self._claim_unknown:
            release_blocks(self._database, self.job, self._worker)
        self._claim_unknown = True
        number = claim_block(self._database, self.job, self._worker, lease_s, contents=contents, is_dead=self._is_dead)
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

    def _outcomes_of(self, contents: Sequence[Content], block: int) -> Sequence[Outcome]:
        """Return the outcomes of a finished block, read once."""
        if block not in self._outcomes:
            outcomes = Outcomes(functools.partial(bundle_of, self._settings.bundles, self.job))
            for launch in self._schedule.launches(contents)[block]:
                outcomes.add(launch.runs, launch.index)
            self._outcomes[block] = outcomes
        return self._outcomes[block]
