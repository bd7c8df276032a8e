"""The schedule of a tuning: the race, launch by launch, and then its result, measured with no speculation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lab.comparison.verdict import MARGIN
from lab.metrics.number_format import percentage
from lab.schedule.schedule import End, Outcome, Step
from lab.study import Arm, Study
from lab.study.plan import Launch, PlannedRun, with_fresh_starts
from lab.study.tune import drafts
from lab.tuning.race import LEAST_BLOCKS, Limits, Round, next_round
from lab.tuning.result import Choice, choice
from lab.tuning.setting import NONE, Setting, Space, TunedRun
from lab.tuning.standing import Standing, standings

#: The most runs of a race, as a share of a full grid with one run each: half of a grid of three repeats.
_OF_A_GRID = 1.5
#: At the end: no speculation, the best single setting, and what will be deployed.
_FINAL_ARMS = 3


@dataclass(frozen=True)
class RunResult:
    """What a tuning needs to know of a run; the speed is None if it failed, or if it is invalid (`is_disturbed`)."""

    speed: float | None
    accepted: tuple[float, ...] = ()
    took_s: float = 0.0  # as far as is known
    engine_start_s: float = 0.0
    is_disturbed: bool = False


@dataclass
class Progress:
    """How far a tuning has come. `waiting` is what it measures next; None when it has ended."""

    race: list[TunedRun] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)  # measured
    choice: Choice | None = None  # once the race is over
    race_end: str = ""
    waiting: Launch | None = None
    later: tuple[Launch, ...] = ()
    spent_s: float = 0.0


class Tuning:
    """`settings` are by the names of their arms. Raises ValueError for a study that is not a tuning."""

    def __init__(self, study: Study) -> None:
        if study.tune is None:
            raise ValueError(f"the study {study.name!r} is not a tuning")
        self._study, self._tune = study, study.tune
        self._drafts = {draft.name: draft for draft in drafts(study.arms, study.tune)}
        self._loads = {load.max_concurrency: load for load in study.loads}
        self.space = Space(tuple(self._drafts), study.tune.drafted_tokens, tuple(sorted(self._loads)))
        speculating = [setting for setting in self.space.settings if setting != NONE]
        self._arms = {NONE: study.baseline} | {
            setting: self._drafts[setting.draft].with_tokens(setting.k) for setting in speculating
        }
        grid = len(self.space.settings) * len(self.space.loads)
        self._most_runs = math.ceil(grid * _OF_A_GRID)
        self.settings = {self.arm(setting).name: setting for setting in self.space.settings}

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        results = {_key(outcome.run): result_of(outcome) for outcome in outcomes}
        progress = self.follow(lambda run: results.get(_key(run)))
        if progress.waiting is None:
            return self._end(progress)
        return Step(progress.waiting, progress.later, progress.choice is not None, self._standing(progress))

    def follow(self, find: Callable[[PlannedRun], RunResult | None]) -> Progress:
        """Repeat every decision from what was measured, up to the first launch that has a run without outcome."""
        progress = Progress()
        for launches in self._rounds(progress):
            for index, launch in enumerate(launches):
                results = [(run, result) for run in launch.runs if (result := find(run)) is not None]
                if len(results) < len(launch.runs):
                    more = self._at_most(progress, launches[index:]) if progress.choice is None else ()
                    progress.waiting, progress.later = launch, (*launches[index + 1 :], *more)
                    return progress
                progress.launches.append(launch)
                progress.spent_s += results[0][1].engine_start_s + sum(result.took_s for _, result in results)
                if progress.choice is None:
                    progress.race += [
                        TunedRun(
                            self.settings[run.arm.name],
                            run.load.max_concurrency,
                            run.repeat,
                            result.speed,
                            result.accepted,
                            result.is_disturbed,
                        )
                        for run, result in results
                    ]
        return progress

    def arm(self, setting: Setting) -> Arm:
        return self._arms[setting]

    def deployed(self, choice: Choice) -> Arm:
        """Return the arm to deploy: the engine's own schedule, or one setting where one is best or has to do."""
        if choice.draft is None:
            return self._study.baseline
        if len(choice.ranges) == 1:
            return self.arm(Setting(choice.draft, choice.ranges[0][2]))
        return self._drafts[choice.draft].scheduled(choice.ranges) if self._tune.schedule else self.arm(choice.single)

    def final_arms(self, choice: Choice) -> list[Arm]:
        """Return the arms of the final measurement; no speculation comes first."""
        arms = [self._study.baseline, self.arm(choice.single), self.deployed(choice)]
        arms += [arm for arm in self._study.arms if arm.name in self._tune.beside]
        return list({arm.name: arm for arm in arms}.values())

    def _rounds(self, progress: Progress) -> Iterator[list[Launch]]:
        """Yield the launches of each round; `progress` has grown by them when the next one is requested."""
        limits = Limits(self._tune.most_repeats, self._most_runs)
        while (following := next_round(self.space, progress.race, limits)) is not None:
            if self._is_spent(progress, following):
                progress.race_end = "budget spent"
                break
            of = [(self.arm(setting), loads) for setting, loads in following.loads.items()]
            yield self._launches(len(progress.launches), following.block, of)
        standing_at = standings(self.space, progress.race)
        if not standing_at:
            progress.race_end = "nothing to compare"
            return
        first = len({run.block for run in progress.race})
        if not progress.race_end:
            limit = "most repeats" if first == self._tune.most_repeats else "most runs"
            progress.race_end = limit if _open(standing_at) else "decided"
        progress.choice = choice(self.space, standing_at)
        final = self.final_arms(progress.choice)
        launches: list[Launch] = []
        for block in range(first, first + (LEAST_BLOCKS if len(final) > 1 else 0)):
            ordered = final if block % 2 == 0 else final[::-1]
            launches += self._launches(len(progress.launches) + len(launches), block, self._everywhere(ordered))
        yield launches

    def _everywhere(self, arms: Iterable[Arm]) -> Iterable[tuple[Arm, Sequence[int]]]:
        return ((arm, self.space.loads) for arm in arms)

    def _at_most(self, progress: Progress, launches: Sequence[Launch]) -> tuple[Launch, ...]:
        """Return the most that may follow this round: the rest of the race, and the runs that end the tuning."""
        first = len(progress.launches) + len(launches)
        left = self._most_runs - len(progress.race) - sum(len(launch.runs) for launch in launches)
        race = [*self.space.settings * (left // len(self.space.settings) + 1)]
        some = self._everywhere(map(self.arm, race[: math.ceil(max(left, 0) / len(self.space.loads))]))
        final = [self._study.baseline] * (LEAST_BLOCKS * (_FINAL_ARMS + len(self._tune.beside)))
        return tuple(self._launches(first, self._tune.most_repeats, [*some, *self._everywhere(final)]))

    def _launches(self, first: int, block: int, of: Iterable[tuple[Arm, Sequence[int]]]) -> list[Launch]:
        (workload,) = self._study.workloads
        launches = (
            Launch(0, (arm,), tuple(PlannedRun(arm, workload, self._loads[at], block) for at in loads))
            for arm, loads in of
        )
        return list(with_fresh_starts(self._study, launches, first))

    def _is_spent(self, progress: Progress, following: Round) -> bool:
        """Return whether the round, and measuring the result after it, would take more than the budget."""
        if self._tune.budget_minutes is None or not progress.launches:
            return False
        final = LEAST_BLOCKS * (_FINAL_ARMS + len(self._tune.beside))
        launch_s = progress.spent_s / len(progress.launches)
        return progress.spent_s + (len(following.loads) + final) * launch_s > 60 * self._tune.budget_minutes

    def _standing(self, progress: Progress) -> str:
        if progress.choice is not None:
            return "Every load has its setting; now they are measured beside no speculation"
        standing_at = standings(self.space, progress.race)
        decided = len(standing_at) - len(_open(standing_at))
        return f"{decided} of {len(self.space.loads)} loads have their setting" if standing_at else ""

    def _end(self, progress: Progress) -> End:
        sentences = {
            "decided": f"At no load could another setting be faster by more than {percentage(MARGIN)}",
            "most repeats": f"Some loads are inconclusive after {self._tune.most_repeats} repeats",
            "most runs": f"Some loads are inconclusive after the {self._most_runs} runs that a race may take",
            "budget spent": "The budget did not allow another round",
            "nothing to compare": "No load has both a valid run without speculation and one with it",
        }
        caveats = progress.choice.caveats if progress.choice else ""
        return End(progress.race_end, sentences[progress.race_end] + (f". {caveats}" if caveats else ""))


def _open(standing_at: Mapping[int, Standing]) -> list[int]:
    return [load for load, at in standing_at.items() if at.contenders()]


def _key(run: PlannedRun) -> str:
    return run.key("")


def result_of(outcome: Outcome) -> RunResult:
    """Return the part of an outcome that a tuning uses."""
    speed, accepted = outcome.metrics.get("output_tok_per_s"), outcome.metrics.get("acceptance_per_position")
    return RunResult(
        speed=float(speed) if outcome.is_valid and isinstance(speed, int | float) else None,
        accepted=tuple(accepted) if isinstance(accepted, tuple) else (),
        took_s=outcome.took_s or 0.0,
        engine_start_s=outcome.engine_start_s or 0.0,
        is_disturbed=outcome.error is None and not outcome.is_valid,
    )
