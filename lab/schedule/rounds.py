"""Rounds: engines that are up side by side are measured in many short windows, in an order drawn anew in each round.

A run stays one arm under one workload and load in one repeat, with all its prompts. In a closed loop it is measured in
several windows, each of which sends a part of the prompts, the same part on every arm. Between them other arms and
cells have theirs. docs/decisions/0016-short-windows-in-rounds.md says what that is for.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from lab.study import Study
from lab.study.plan import Launch, PlannedRun, draw, in_drawn_order

#: A run has at most this many windows: of a run of a minute they last some seconds each.
MOST_WINDOWS = 12
#: A window sends each of several streams this many prompts: the first answer and the last ones are in no steady part.
_PROMPTS_A_STREAM = 3
#: And prompts for at least this many tokens, which take about a second: what happens around a window takes 0.05 s.
LEAST_TOKENS, LEAST_TOKENS_ON_GPU = 24, 128
#: Most tokens of the runs that are measured together. Their answers, 50 bytes a token, are in memory until all end.
_MOST_TOKENS = 2_000_000


class PlannedWindow(NamedTuple):
    """One window of a run, which has `windows` of them; `number` counts from 0."""

    run: PlannedRun
    number: int = 0
    windows: int = 1


def number_of_windows(run: PlannedRun, least_tokens: int = LEAST_TOKENS) -> int:
    """Return in how many windows a run is measured in rounds. It depends on workload and load, never on the arm."""
    workload, load = run.workload, run.load
    prompts = 1 if load.max_concurrency == 1 else _PROMPTS_A_STREAM
    prompts = max(prompts, -(-least_tokens // workload.output_tokens))
    return max(1, min(MOST_WINDOWS, load.num_prompts // (prompts * load.max_concurrency)))


def in_rounds(study: Study, launch: Launch, run: PlannedRun) -> bool:
    """Return whether the run may be interrupted: a closed loop of single requests, on drafts that do not remember.

    A rate, a trace or a duration has a clock of its own, the turns of a session belong together, a search needs the
    result of each trial, and a draft that remembers gets an engine start for each cell.
    """
    load = run.load
    return (
        study.order == "side_by_side"
        and len(launch.arms) > 1
        and run.trial is None
        and load.closed_loop
        and load.duration_s is None
        and run.workload.sessions is None
        and not any(map(study.starts_each_cell, launch.arms))
    )


def in_order(
    study: Study, launch: Launch, left: Sequence[PlannedRun], least_tokens: int = LEAST_TOKENS
) -> Iterator[list[PlannedWindow]]:
    """Yield the windows of the launch's runs that are left, in the order of measurement.

    The runs of one list have their windows by turns and end at about the same time. Pure: after a crash the windows
    that are left have the same order and the same prompts.
    """
    for _, of_repeat in itertools.groupby(left, key=lambda run: run.repeat):
        runs = list(of_repeat)
        yield from ([PlannedWindow(run)] for run in runs if not in_rounds(study, launch, run))
        cells: dict[tuple[str, str], list[PlannedRun]] = {}
        for run in runs:
            if in_rounds(study, launch, run):
                cells.setdefault(run.cell, []).append(run)
        for together in _that_fit(list(cells.values())):
            yield _by_turns(study.seed, together, least_tokens)


def in_long_windows(windows: Sequence[PlannedWindow]) -> list[PlannedWindow]:
    """Return these windows with a single one for each run of several streams, where its first would have been.

    For servers that do not say how many tokens a chunk holds: what all streams together received in the full part of a
    window is unknown, and over whole short windows throughput is too low.
    """
    return [
        window._replace(windows=1) if window.run.load.max_concurrency > 1 else window
        for window in windows
        if window.run.load.max_concurrency == 1 or window.number == 0
    ]


def _that_fit(cells: Sequence[list[PlannedRun]]) -> Iterator[list[list[PlannedRun]]]:
    """Yield cells that are measured together, as many at once as may be in memory."""
    together: list[list[PlannedRun]] = []
    tokens = 0
    for runs in cells:
        more = sum(run.load.num_prompts * run.workload.output_tokens for run in runs)
        if together and tokens + more > _MOST_TOKENS:
            yield together
            together, tokens = [], 0
        together.append(runs)
        tokens += more
    if together:
        yield together


def _by_turns(seed: int, cells: Sequence[list[PlannedRun]], least_tokens: int) -> list[PlannedWindow]:
    """Return the windows round by round; a cell with fewer windows than others has them in rounds far apart."""
    counts = [number_of_windows(runs[0], least_tokens) for runs in cells]
    most = max(counts)
    due: list[list[tuple[str, list[PlannedWindow]]]] = [[] for _ in range(most)]
    for runs, count in zip(cells, counts, strict=True):
        of_arm, cell = {run.arm.name: run for run in runs}, runs[0].cell
        for number in range(count):
            place = runs[0].repeat * count + number
            arms = in_drawn_order(of_arm, seed, cell, place)
            windows = [PlannedWindow(of_arm[arm], number, count) for arm in arms]
            due[number * most // count].append((draw(seed, "cells", *cell, place), windows))
    return [window for cells_due in due for _, windows in sorted(cells_due) for window in windows]


def dealt(kinds: Sequence[Hashable], windows: int, seed: int) -> list[list[int]]:
    """Return the positions of the prompts that each window sends, by the prompts' kinds, which must sort.

    Like prompts are dealt to different windows, so that each window has the mix of all: of every so many in the order
    of their kinds each window gets one, drawn which.
    """
    in_kind = sorted(range(len(kinds)), key=lambda place: (kinds[place], draw(seed, place)))
    hands: list[list[int]] = [[] for _ in range(windows)]
    for first in range(0, len(in_kind), windows):
        drawn = sorted(range(windows), key=lambda window: draw(seed, "deal", first, window))
        for place, window in zip(in_kind[first : first + windows], drawn, strict=False):
            hands[window].append(place)
    return [sorted(hand) for hand in hands]
