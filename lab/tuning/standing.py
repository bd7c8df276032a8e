"""The standing at each load: how fast every setting is, which one to use, and which could still be better."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import Array, RunSample
from lab.comparison.verdict import MARGIN
from lab.tuning.curve import Gain, curve, lengths
from lab.tuning.setting import NONE, Setting, Space, TunedRun

#: The assumed variance of a run's log speed until two runs show how much they differ: a standard deviation of 4 %.
_UNKNOWN_VARIANCE, _UNKNOWN_DF = 0.04**2, 4.0
#: The one-sided confidence required to rule out that a setting can win.
_SURE = 0.95
_MARGIN = math.log1p(MARGIN)


@dataclass(frozen=True, eq=False)
class Standing:
    """One load. `gains` are the expected log speed-ups of `settings` over no speculation, with their covariance.

    `most` is the upper bound of each: drafting cannot make a round cheaper than one step of the target. `assumed`
    settings did not run, and only one k of their draft did: the usual cost of a round is assumed for them.
    """

    settings: tuple[Setting, ...]
    gains: Array
    covariance: Array
    most: Array
    deviations: float  # this many standard deviations count as certain
    assumed: frozenset[Setting] = frozenset()

    def gain(self, setting: Setting) -> float:
        return float(self.gains[self.settings.index(setting)])

    def upper(self, setting: Setting, other: Setting) -> float:
        """Return the log of how many times faster `setting` may at most be than `other`."""
        row, column = self.settings.index(setting), self.settings.index(other)
        variance = self.covariance[row, row] + self.covariance[column, column] - 2 * self.covariance[row, column]
        return float(self.gains[row] - self.gains[column]) + self.deviations * math.sqrt(max(float(variance), 0.0))

    def chosen(self, among: Iterable[Setting] | None = None) -> Setting:
        """Return the setting to use: the fastest, or the one with the least k that surely is within 2 % of it."""
        settings = self._there(among)
        fastest = max(settings, key=self.gain)
        tied = [setting for setting in settings if setting.k < fastest.k and self.upper(fastest, setting) <= _MARGIN]
        return min(tied, key=lambda setting: (setting.k, -self.gain(setting)), default=fastest)

    def deployable(self, among: Iterable[Setting] | None = None) -> Setting:
        """Return the setting to deploy: the one to use, but no speculation where others could still be faster and it
        is not sure that drafting pays.
        """
        chosen = self.chosen(among)
        return NONE if self.upper(NONE, chosen) >= 0 and self.contenders(among) else chosen

    def contenders(self, among: Iterable[Setting] | None = None) -> tuple[Setting, ...]:
        """Return the settings that could still be faster than the chosen one, and than any sure gain, by 2 %."""
        settings, chosen = self._there(among), self.chosen(among)
        at_least = max(self._at_least(setting) for setting in settings)
        return tuple(
            setting
            for setting in settings
            if setting != chosen
            and self.upper(setting, chosen) > _MARGIN
            and float(self.most[self.settings.index(setting)]) > at_least + _MARGIN
        )

    def _at_least(self, setting: Setting) -> float:
        index = self.settings.index(setting)
        uncertain = self.deviations * math.sqrt(float(self.covariance[index, index]))
        return 0.0 if setting == NONE else float(self.gains[index]) - uncertain

    def _there(self, among: Iterable[Setting] | None) -> list[Setting]:
        wanted = set(self.settings if among is None else among)
        return [setting for setting in self.settings if setting in wanted]


def standings(space: Space, runs: Sequence[TunedRun]) -> dict[int, Standing]:
    """Return the standing at each load where no speculation and something else were measured."""
    return _standings(space, tuple(runs))


@functools.lru_cache(128)  # each call of a schedule repeats all its decisions
def _standings(space: Space, runs: tuple[TunedRun, ...]) -> dict[int, Standing]:
    accepted = _accepted(space, runs)
    measured = _measured(runs)
    return {load: _standing(space, measured[load], accepted) for load in space.loads if load in measured}


def comparisons(runs: Sequence[TunedRun]) -> dict[tuple[Setting, int], Comparison]:
    """Compare every setting with no speculation at its load, paired by blocks, as any table of the lab."""
    samples: dict[tuple[Setting, int], list[RunSample]] = {}
    for index, run in enumerate(runs):
        sample = RunSample(str(index), f"{run.setting.draft} {run.setting.k}", run.block, run.speed)
        samples.setdefault((run.setting, run.load), []).append(sample)
    keys = [(setting, load) for setting, load in samples if setting != NONE and (NONE, load) in samples]
    cells = [CellRuns(samples[NONE, load], samples[setting, load]) for setting, load in keys]
    return dict(zip(keys, compare_cells(cells, "higher"), strict=True))


@dataclass
class _Measured:
    """One load: the gains measured there, the settings that only failed, and how noisy no speculation is."""

    gains: dict[Setting, Gain]
    failed: set[Setting]
    baseline_variance: float
    dfs: list[float]


def _measured(runs: Sequence[TunedRun]) -> dict[int, _Measured]:
    """Group the measurements by load. Half of a ratio's variance is the setting's own, half the baseline's, which all
    settings of a block share.
    """
    measured: dict[int, _Measured] = {}
    for (setting, load), comparison in comparisons(runs).items():
        at = measured.setdefault(load, _Measured({}, set(), math.inf, []))
        if comparison.effect is None:
            at.failed.add(setting)
            continue
        variance, df = _UNKNOWN_VARIANCE / comparison.blocks, _UNKNOWN_DF
        if (spread := comparison.effect.spread) is not None:
            variance, df = float(spread.blocks) / 2, float(spread.blocks_df)
        at.gains[setting] = Gain(comparison.effect.value, variance)
        at.baseline_variance = min(at.baseline_variance, variance)
        at.dfs.append(df)
    return {load: at for load, at in measured.items() if at.gains}


def _accepted(space: Space, runs: Iterable[TunedRun]) -> dict[str, dict[int, tuple[float, ...]]]:
    """Return the acceptance by position for each draft and measured k: a mean over runs, as load does not change it."""
    shares: dict[str, dict[int, list[tuple[float, ...]]]] = {draft: {} for draft in space.drafts}
    for run in runs:
        if run.setting != NONE and len(run.accepted) >= run.setting.k:
            shares[run.setting.draft].setdefault(run.setting.k, []).append(run.accepted[: run.setting.k])
    return {
        draft: {k: tuple(map(float, np.mean(every, axis=0))) for k, every in by_k.items()}
        for draft, by_k in shares.items()
    }


def _standing(space: Space, at: _Measured, accepted: Mapping[str, Mapping[int, Sequence[float]]]) -> Standing:
    """Return the standing at one load. A setting whose acceptance is unknown is judged by its own runs alone."""
    settings, gains, most, blocks = [NONE], [0.0], [0.0], [np.array([[at.baseline_variance]])]
    assumed: set[Setting] = set()
    for draft in space.drafts:
        rounds = lengths(space.ks, accepted[draft])
        measured = {
            setting.k: gain for setting, gain in at.gains.items() if setting.draft == draft and setting.k in rounds
        }
        ks = [k for k in rounds if Setting(draft, k) not in at.failed]
        if measured:
            fitted = curve(ks, rounds, measured)
            settings += [Setting(draft, k) for k in ks]
            gains += fitted.gains.tolist()
            most += [math.log(rounds[k]) for k in ks]
            blocks.append(fitted.covariance)
            assumed |= {Setting(draft, k) for k in ks if len(measured) == 1 and k not in measured}
        alone = {
            setting: gain for setting, gain in at.gains.items() if setting.draft == draft and setting.k not in rounds
        }
        settings += alone
        gains += [gain.value for gain in alone.values()]
        most += [math.log(setting.k + 1) for setting in alone]
        blocks += [np.array([[gain.variance]]) for gain in alone.values()]
    deviations = float(special.stdtrit(np.median(at.dfs), _SURE))
    covariance = linalg.block_diag(*blocks)
    return Standing(tuple(settings), np.array(gains), covariance, np.array(most), deviations, frozenset(assumed))
