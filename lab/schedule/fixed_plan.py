"""The schedule of a study with a fixed number of repeats: its plan, launch by launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from lab.schedule.schedule import End, Outcome, Step
from lab.study import Study
from lab.study.plan import plan


class FixedPlan:
    """Every launch of the plan, whatever was measured."""

    def __init__(self, study: Study) -> None:
        self._launches = plan(study)
        self._ends = tuple(accumulate(len(launch.runs) for launch in self._launches))

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        done = sum(end <= len(outcomes) for end in self._ends)
        if done == len(self._launches):
            return End("complete")
        return Step(self._launches[done], self._launches[done + 1 :])
