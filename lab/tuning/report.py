"""The report of a tuning: what to use at each load, how sure that is, and why the rest was left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.verdict import MARGIN, Verdict, verdicts
from lab.metrics.number_format import percentage, times
from lab.schedule.tuning import Progress, RunResult, Tuning
from lab.study import Arm, Study
from lab.study.arm import SCHEDULE
from lab.study.plan import PlannedRun
from lab.tuning.result import Choice, choice
from lab.tuning.setting import NONE, Setting
from lab.tuning.standing import Standing, standings


@dataclass(frozen=True)
class Measured:
    """An arm against no speculation at one load; the ratio and its bounds are None if unknown."""

    arm: str
    load: int
    k: int  # drafted tokens there
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    basis: str


@dataclass(frozen=True)
class Tried:
    """A setting at one load: how often it ran, its speed-up as far as known, and what became of it.

    `expected` is the estimate from all runs of its draft, with the 90 % interval `at_least` to `at_most`;
    `measured` is the estimate from its own runs.
    """

    arm: str
    draft: str  # empty for no speculation
    load: int
    k: int
    runs: int
    expected: float | None
    at_least: float | None
    at_most: float | None
    measured: Measured | None
    is_chosen: bool
    fate: str


@dataclass(frozen=True)
class Report:
    """`scheduled` is the arm with the engine's own schedule; None where one number of tokens is best everywhere.

    `deployed` is what to deploy: the scheduled arm, or else one setting. `best` has the chosen setting of
    each load, `final` what was measured at the end. `ended` says why the race ended; empty while it runs.
    `caveats` state where a number of tokens rests on more than measurements, and where none was shown to pay.
    """

    best: tuple[Measured, ...]
    single: Arm
    scheduled: Arm | None
    deployed: Arm
    ranges: tuple[tuple[int, int, int], ...]
    final: tuple[Measured, ...]
    tried: tuple[Tried, ...]
    ended: str
    caveats: str
    runs: int
    grid_runs: int  # of every setting at every load, once

    @property
    def cost_of_nothing(self) -> tuple[Measured, ...]:
        """Return the scheduled arm where it drafts nothing: the cost of being ready to draft."""
        name = "" if self.scheduled is None else self.scheduled.name
        return tuple(measured for measured in self.final if measured.arm == name and measured.k == 0)


def report(study: Study, find: Callable[[PlannedRun], RunResult | None]) -> Report | None:
    """Return the report of a study that is a tuning from the runs that `find` knows; None before the first results."""
    tuning = Tuning(study)
    progress = tuning.follow(find)
    standing_at = standings(tuning.space, progress.race)
    if not standing_at:
        return None
    chosen = progress.choice or choice(tuning.space, standing_at)
    measured = _measured(tuning, progress, find)
    deployed = tuning.deployed(chosen)
    final = {arm.name for arm in tuning.final_arms(chosen)} - {study.baseline.name} if progress.choice else set()
    return Report(
        best=tuple(_best(tuning, measured, chosen, load) for load in standing_at),
        single=tuning.arm(chosen.single),
        deployed=deployed,
        scheduled=deployed if deployed.speculation is not None and SCHEDULE in deployed.speculation.options else None,
        ranges=chosen.ranges,
        final=tuple(cell for cell in measured.values() if cell.arm in final),
        tried=tuple(_tried(tuning, progress, standing_at, measured)),
        ended=progress.race_end,
        caveats=chosen.caveats,
        runs=sum(len(launch.runs) for launch in progress.launches),
        grid_runs=len(tuning.space.settings) * len(tuning.space.loads),
    )


def _best(tuning: Tuning, measured: Mapping[tuple[str, int], Measured], chosen: Choice, load: int) -> Measured:
    setting = chosen.best[load]
    name = tuning.arm(setting).name
    unmeasured = Measured(name, load, setting.k, None, None, None, "inconclusive", "not measured")
    same = Measured(name, load, 0, 1.0, None, None, "no difference", "it is what the others are compared with")
    return same if setting == NONE else measured.get((name, load), unmeasured)


def _measured(
    tuning: Tuning, progress: Progress, find: Callable[[PlannedRun], RunResult | None]
) -> dict[tuple[str, int], Measured]:
    """Compare every arm with no speculation at each load, over the runs of the race and of the final measurement."""
    baseline, tokens = tuning.arm(NONE).name, {name: setting.k for name, setting in tuning.settings.items()}
    samples: dict[tuple[str, int], list[RunSample]] = {}
    arms: dict[str, Arm] = {}
    for launch in progress.launches:
        for run in launch.runs:
            result = find(run)
            speed = None if result is None else result.speed
            sample = RunSample(run.key(""), run.arm.name, run.repeat, speed, launch=launch.index)
            samples.setdefault((run.arm.name, run.load.max_concurrency), []).append(sample)
            arms[run.arm.name] = run.arm
    keys = [key for key in samples if key[0] != baseline and (baseline, key[1]) in samples]
    compared = compare_cells([CellRuns(samples[baseline, load], samples[arm, load]) for arm, load in keys], "higher")
    return {
        (arm, load): _one(arms[arm], load, tokens.get(arm), comparison, verdict)
        for (arm, load), comparison, verdict in zip(keys, compared, verdicts(compared), strict=True)
    }


def _one(arm: Arm, load: int, k: int | None, compared: Comparison, verdict: Verdict) -> Measured:
    """Return the arm's ratio with the interval behind its verdict, corrected for the table."""
    if k is None and arm.speculation is not None:
        scheduled = arm.speculation.scheduled_tokens(load)
        k = arm.speculation.num_speculative_tokens if scheduled is None else scheduled
    ratio = verdict.interval or compared.ratio
    value, low, high = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    return Measured(arm.name, load, k or 0, value, low, high, verdict.word, compared.basis)


def _tried(
    tuning: Tuning,
    progress: Progress,
    standing_at: Mapping[int, Standing],
    measured: Mapping[tuple[str, int], Measured],
) -> Iterator[Tried]:
    runs = Counter((run.setting, run.load) for run in progress.race)
    for load, at in standing_at.items():
        for setting in tuning.space.settings:
            name, is_standing = tuning.arm(setting).name, setting in at.settings
            yield Tried(
                arm=name,
                draft=setting.draft,
                load=load,
                k=setting.k,
                runs=runs[setting, load],
                expected=math.exp(at.gain(setting)) if is_standing else None,
                at_least=math.exp(-at.upper(NONE, setting)) if is_standing else None,
                at_most=math.exp(at.upper(setting, NONE)) if is_standing else None,
                measured=measured.get((name, load)),
                is_chosen=is_standing and setting == at.deployable(),
                fate=_fate(setting, at, runs[setting, load]),
            )


def _fate(setting: Setting, at: Standing, runs: int) -> str:
    """Describe what became of a setting at one load."""
    if setting not in at.settings:
        return "no run of it counts" if runs else "not run: nothing is known of it"
    chosen, deployable = at.chosen(), at.deployable()
    if setting == deployable:
        return "chosen"
    if setting == chosen:
        return "left off: not shown to be faster than no speculation"
    named = "chosen" if chosen == deployable else "fastest"
    if setting in at.contenders():
        return f"inconclusive: it may be faster by up to {percentage(math.expm1(at.upper(setting, chosen)))}"
    if at.gain(setting) > at.gain(chosen) - math.log1p(MARGIN):
        return f"within {percentage(MARGIN)} of the {named} one"
    worse = f"slower: {times(math.exp(at.gain(setting) - at.gain(chosen)))} of the {named} one"
    return worse if runs else f"not run, {worse} judged by its neighbours"
