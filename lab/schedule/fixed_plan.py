"""The schedules of a study with a fixed number of repeats: its plan, launch by launch, or block by block on slots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from lab.schedule.schedule import Content, End, Outcome, Share, Step
from lab.study import Study
from lab.study.plan import Launch, blocks, plan


class FixedPlan:
    """Every launch of the plan, whatever was measured."""

    def __init__(self, study: Study) -> None:
        self._launches = plan(study)

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        done = sum(end <= len(outcomes) for end in accumulate(len(launch.runs) for launch in self._launches))
        if done == len(self._launches):
            return End("complete")
        return Step(self._launches[done], self._launches[done + 1 :])


class SharedPlan:
    """The blocks of a study with a fixed number of repeats."""

    def __init__(self, study: Study) -> None:
        self._blocks = blocks(study)

    def launches(self, contents: Sequence[Content]) -> list[tuple[Launch, ...]]:
        return list(self._blocks[: len(contents)])

    def later(self, contents: Sequence[Content]) -> tuple[Launch, ...]:
        return tuple(launch for block in self._blocks[len(contents) :] for launch in block)

    def next(
        self,
        contents: Sequence[Content],
        done: Collection[int],
        outcomes_of: Callable[[int], Sequence[Outcome]],  # noqa: ARG002 - a plan does not depend on them
    ) -> Share | End | None:
        if len(contents) < len(self._blocks):
            return Share(None)
        return End("complete") if len(done) == len(contents) else None
