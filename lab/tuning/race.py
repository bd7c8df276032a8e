"""The race: what a tuning measures next, until every load has its setting.

The first block is for what comes free: no speculation, each draft at the greatest k, and at the smallest k those drafts
that can still win after what was measured at the greatest k. From the second block on only those settings run, and only
at those loads, that could still beat the best one there by more than the margin. Invalid runs are repeated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.tuning.result import deployed_draft, settings_of
from lab.tuning.setting import NONE, Setting, Space, TunedRun
from lab.tuning.standing import Standing, standings

#: With fewer blocks, the interval of what is chosen is too wide to be useful.
LEAST_BLOCKS = 3


@dataclass(frozen=True)
class Limits:
    """The limits of a race, in blocks and in runs."""

    blocks: int = 6
    runs: int | None = None


@dataclass(frozen=True)
class Round:
    """The next starts of one block, in order: each setting with the loads at which it is measured."""

    block: int
    loads: Mapping[Setting, tuple[int, ...]]


def next_round(space: Space, runs: Sequence[TunedRun], limits: Limits) -> Round | None:
    """Return what to start next, or None when every load is decided or a limit is reached."""
    if not runs:
        return Round(0, dict.fromkeys((NONE, *(Setting(draft, space.ks[-1]) for draft in space.drafts)), space.loads))
    standing_at = standings(space, runs)
    blocks = len({run.block for run in runs})
    if blocks == 1 and (second := _second_ks(space, runs, standing_at)):
        return Round(0, second)
    if blocks >= limits.blocks:
        return None
    wanted = _affordable(
        _may_change_the_choice(space, runs, standing_at) | _disturbed(runs),
        None if limits.runs is None else limits.runs - len(runs),
    )
    loads: dict[Setting, list[int]] = {}
    for setting, load in sorted(wanted):
        loads.setdefault(setting, []).append(load)
    order = sorted(loads, reverse=blocks % 2 == 1)
    return Round(blocks, {setting: tuple(loads[setting]) for setting in order}) if wanted else None


def _second_ks(
    space: Space, runs: Sequence[TunedRun], standing_at: Mapping[int, Standing]
) -> dict[Setting, tuple[int, ...]]:
    """Return the smallest k of every draft that can win somewhere, at all loads, unless it was measured.

    If the engine does not report acceptance, one k predicts nothing about another: then every k is returned.
    """
    done = {run.setting for run in runs}
    telling = {run.setting.draft for run in runs if run.accepted}
    silent = {run.setting.draft for run in runs if run.speed is not None} - telling
    can_win = {setting.draft for at in standing_at.values() for setting in (at.chosen(), *at.contenders())} & telling
    seconds = [Setting(draft, space.ks[0]) for draft in space.drafts if draft in can_win]
    seconds += [Setting(draft, k) for draft in space.drafts if draft in silent for k in space.ks]
    return {setting: space.loads for setting in seconds if setting not in done}


def _may_change_the_choice(
    space: Space, runs: Sequence[TunedRun], standing_at: Mapping[int, Standing]
) -> dict[tuple[Setting, int], float]:
    """Return the runs that could still change the choice at a load, among all settings and among those of the draft to
    deploy, with the log ratio by which they may prove faster. The choice runs until its speed has an interval.
    """
    counts = Counter((run.setting, run.load) for run in runs if run.speed is not None)
    draft = deployed_draft(space, standing_at)
    wanted: dict[tuple[Setting, int], float] = {}
    for load, at in standing_at.items():
        for among in (at.settings, settings_of(at, draft)):
            chosen, contenders = at.chosen(among), at.contenders(among)
            worth = {setting: at.upper(setting, chosen) for setting in contenders}
            if contenders or counts[chosen, load] < LEAST_BLOCKS:
                worth |= {NONE: math.inf, chosen: math.inf}
            wanted |= {(setting, load): max(gain, wanted.get((setting, load), 0.0)) for setting, gain in worth.items()}
    return wanted


def _disturbed(runs: Sequence[TunedRun]) -> dict[tuple[Setting, int], float]:
    """Return the runs that repeat what no block could compare because something was disturbed, with their baseline.

    What failed is not tried again, nor what was disturbed in LEAST_BLOCKS blocks.
    """
    baselines = {(run.load, run.block): run for run in runs if run.setting == NONE}
    pairs: dict[tuple[Setting, int], list[tuple[TunedRun, TunedRun]]] = {}
    for run in runs:
        if run.setting != NONE and (baseline := baselines.get((run.load, run.block))) is not None:
            pairs.setdefault((run.setting, run.load), []).append((baseline, run))
    again = [
        pair
        for pair, blocks in pairs.items()
        if len(blocks) < LEAST_BLOCKS
        and all(any(run.is_disturbed for run in block) for block in blocks)
        and not any(run.speed is None and not run.is_disturbed for block in blocks for run in block)
    ]
    return dict.fromkeys([*again, *((NONE, load) for _, load in again)], math.inf)


def _affordable(wanted: Mapping[tuple[Setting, int], float], most: int | None) -> list[tuple[Setting, int]]:
    """Drop the least promising runs until the rest is affordable; return nothing if even the chosen ones are not."""
    promising = sorted(wanted, key=lambda pair: wanted[pair], reverse=True)
    affordable = promising if most is None else promising[: max(most, 0)]
    return affordable if all(pair in affordable for pair in wanted if wanted[pair] == math.inf) else []
