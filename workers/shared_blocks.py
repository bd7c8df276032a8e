"""The blocks of a job that several workers share, as one of these workers sees them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from host.settings import Settings
from jobs.blocks import IsDead, claim_block, handed_out, release_blocks
from jobs.table import Job
from lab.schedule import Content, End, Outcome, Share, Step, shared_schedule
from lab.study.plan import Launch
from workers.outcomes import Outcomes
from workers.run_recorder import bundle_of


@dataclass(frozen=True)
class View:
    """What was handed out by now. `following`: what the next free slot measures; None if it has to wait."""

    contents: Sequence[Content]
    done: Collection[int]
    following: Share | End | None


@dataclass(frozen=True)
class Claimed:
    """A block that is this worker's, as steps, and its number, from 0."""

    number: int
    steps: tuple[Step, ...]


class SharedBlocks:
    """Looks at the blocks of one attempt of a job, and claims them."""

    def __init__(self, settings: Settings, database: sa.Engine, job: Job, worker: str, is_dead: IsDead) -> None:
        self._settings, self._database, self.job, self._worker, self._is_dead = settings, database, job, worker, is_dead
        self._schedule = shared_schedule(job.study)
        self._outcomes: dict[int, Sequence[Outcome]] = {}  # of blocks that are done
        self._answer_lost = False  # of the last claim

    def look(self) -> View:
        """Return what was handed out, and what comes next by the outcomes of what is done."""
        blocks = handed_out(self._database, self.job)
        contents = [block.content for block in blocks]
        done = {number for number, block in enumerate(blocks) if block.is_done}
        outcomes_of = functools.partial(self._outcomes_of, contents)
        return View(contents, done, self._schedule.next(contents, done, outcomes_of))

    def claim(self, view: View) -> Claimed | None:
        """Take a block that was handed out and that nobody has, or else the next one; None if there is none now."""
        following = view.following
        contents = [*view.contents, *([following.content] if isinstance(following, Share) else [])]
        lease_s = self._settings.lease_s
        if self._answer_lost:  # the database may have given a block, of which nobody knows
            release_blocks(self._database, self.job, self._worker)
        self._answer_lost = True
        number = claim_block(self._database, self.job, self._worker, lease_s, contents=contents, is_dead=self._is_dead)
        self._answer_lost = False
        if number is None:
            return None
        is_new = number == len(view.contents)
        every = self._schedule.launches(contents if is_new else view.contents)
        others = set(range(len(every))) - {number, *view.done}
        mine, later = every[number], [launch for other in sorted(others) for launch in every[other]]
        later += self._schedule.later(contents if is_new else view.contents)
        return Claimed(number, tuple(self._steps(mine, later, following, shared_by=1 + len(others))))

    def launches(self, view: View) -> list[tuple[Launch, ...]]:
        """Return the launches of each block that was handed out."""
        return self._schedule.launches(view.contents)

    def _steps(
        self, mine: Sequence[Launch], later: Sequence[Launch], following: Share | End | None, shared_by: int
    ) -> Iterator[Step]:
        known = following if isinstance(following, Share) else Share(None)
        for place, launch in enumerate(mine):
            yield Step(
                launch,
                (*mine[place + 1 :], *later),
                later_is_certain=self.job.study.runs_are_planned,
                standing=known.standing,
                most_s=None if known.left_s is None else known.left_s / shared_by,
                shared_by=shared_by,
            )

    def _outcomes_of(self, contents: Sequence[Content], block: int) -> Sequence[Outcome]:
        """The outcomes of a block that is done, read once."""
        if block not in self._outcomes:
            outcomes = Outcomes(functools.partial(bundle_of, self._settings, self.job))
            for launch in self._schedule.launches(contents)[block]:
                outcomes.add(launch.runs, launch.index)
            self._outcomes[block] = outcomes
        return self._outcomes[block]
