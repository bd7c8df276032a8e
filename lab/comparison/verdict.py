"""Verdicts: faster, slower, no difference, or inconclusive, for a table of comparisons together; or a control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lab.comparison import looks, spread
from lab.comparison.compare import Comparison, exponential
from lab.comparison.effect import CONFIDENCE, Effect, Interval
from lab.comparison.samples import Array
from lab.comparison.spread import Spread
from lab.metrics import number_format

Word = Literal["faster", "slower", "no difference", "inconclusive", "control"]

#: Each verdict's mark, on pages and charts, on the terminal and in reports.
MARKS: Mapping[Word, str] = {
    "faster": "▲",
    "slower": "▼",
    "no difference": "=",
    "inconclusive": "?",
    "control": "≡",
}
#: Ratios between 1 / 1.02 and 1.02 make no practical difference; and as a logarithm.
MARGIN = 0.02
_BOUND = math.log1p(MARGIN)
#: The share of calls that may be false.
_LEVEL = 1 - CONFIDENCE
#: The two readings of a table (`strict` of `verdicts`), to choose from and in a sentence.
READINGS = {False: "≤ 5 % of calls false", True: "no false call in the table"}
READING_WORDS = {
    False: "on average at most 5 % of the calls in a table are false (Benjamini-Hochberg)",
    True: "with 95 % confidence no call in the table is false (Holm)",
}
#: More repeats than this are never suggested: such a comparison needs more prompts instead.
MOST_REPEATS = 1000
#: Most cells need few: the numbers of repeats are tried in stretches that end at these.
_STRETCHES = (20, 100, MOST_REPEATS)


@dataclass(frozen=True)
class Verdict:
    """`more_repeats`, with their engine starts, would decide if ratio and scatter stayed as they are; None if unknown.
    `more_starts` of each arm would where more repeats on those that there are would not (cells measured in rounds).

    The p values are adjusted for the table: for the ratio being 1, and for it lying beyond the margin. A control has
    only the first, adjusted among the table's controls (`control` puts it into words). `interval` is
    the ratio's with the same adjustment, for `claims` comparisons: it excludes 1 where the word is faster or slower and
    holds 1 where it is inconclusive. None without an interval, and of a control.
    """

    word: Word
    p_differs: float | None
    p_same: float | None
    more_repeats: int | None
    interval: Interval | None = None
    claims: int = 0
    more_starts: int | None = None

    @property
    def would_decide(self) -> str:
        """State what would decide an inconclusive comparison: `4 more repeats`, `2 more engine starts`; else empty."""
        if self.more_starts:
            return number_format.counted(self.more_starts, "more engine start")
        return number_format.counted(self.more_repeats, "more repeat") if self.more_repeats else ""


UNKNOWN = Verdict("inconclusive", None, None, None)
_CONTROL = Verdict("control", None, None, None)


def verdicts(table: Sequence[Comparison], *, strict: bool = False) -> tuple[Verdict, ...]:
    """Judge all cells of a table: of its calls, at most a share of 1 - CONFIDENCE is false on average.

    `strict` is for a single headline or a CI gate: with this confidence no call of the table is false. Cells without an
    interval, and controls, make no claim, so they do not count in the correction. Equivalence within the margin is
    tested first: two one-sided tests, Schuirmann 1987.
    """
    effects = {index: cell.effect for index, cell in enumerate(table) if cell.effect and cell.effect.spread}
    claims = [index for index in effects if not table[index].control]
    cells = [table[index] for index in claims]
    like = like_claims(cells, strict=strict)
    differs, same = (
        _adjusted(paid_for_looks(p_values, cells, like), cells, strict=strict)
        for p_values in _p_values([effects[index] for index in claims])
    )
    intervals = _intervals(cells, like, differs, same, strict=strict)
    calls = sum(min(pair) <= _LEVEL for pair in zip(differs, same, strict=True))
    alpha = _next_level(len(claims), 0 if strict else calls, two_stages=not strict and _all_looked_at(cells))
    found = [_CONTROL if cell.control else UNKNOWN for cell in table]
    controls = [index for index in effects if table[index].control]
    for index, p in zip(controls, holm(_p_values([effects[index] for index in controls])[0]), strict=True):
        found[index] = replace(_CONTROL, p_differs=p)
    for index, alike, differing, equal, interval in zip(claims, like, differs, same, intervals, strict=True):
        cell, effect = table[index], effects[index]
        word: Word = "inconclusive"
        more: int | None = 0
        starts = None
        if equal <= _LEVEL:
            word = "no difference"
        elif differing <= _LEVEL:
            word = "faster" if (effect.value > 0) == (cell.better == "higher") else "slower"
        else:
            looked = alike if cell.until_decided else None
            blocks = more_blocks(effect, cell.blocks, alpha, looked)
            more = None if blocks is None else blocks * cell.repeats_a_block
            starts = (
                more_blocks(_all_blocks(effect), cell.starts, alpha, looked) if more is None and cell.starts else None
            )
        found[index] = Verdict(word, differing, equal, more, interval, len(claims), starts)
    return tuple(found)


def like_claims(table: Sequence[Comparison], *, strict: bool = False) -> list[int]:
    """Return for each comparison how many claims of the table moderate each other's variances, this one among them.

    This sets the cost of its looks (`lab.comparison.looks`). 1 for a comparison with its own scatter alone, and in the
    strict reading, whose last steps correct for few claims however long the table is.
    """
    moderated = [cell.moderated and not cell.control and not strict for cell in table]
    return [sum(moderated) if alike else 1 for alike in moderated]


def next_level(found: Sequence[Verdict]) -> float:
    """Return the level at which one more call would be made in a table, measured until decided, with these verdicts."""
    claims = [verdict for verdict in found if verdict.claims]
    return _next_level(len(claims), sum(verdict.word != "inconclusive" for verdict in claims), two_stages=True)


def _next_level(claims: int, calls: int, *, two_stages: bool) -> float:
    if not claims:
        return _LEVEL
    second = _LEVEL / (1 + _LEVEL) / max(claims - calls, 1) if two_stages else 0.0
    return min(max(_LEVEL / claims, second) * min(calls + 1, claims), _LEVEL)


def _all_looked_at(cells: Sequence[Comparison]) -> bool:
    return bool(cells) and all(cell.until_decided for cell in cells)


@dataclass(frozen=True)
class Judged:
    """A comparison with its verdict, the same on every page and in every report."""

    comparison: Comparison
    verdict: Verdict

    @property
    def ratio(self) -> Interval | None:
        """Return candidate / baseline with the interval behind the verdict."""
        return self.verdict.interval or self.comparison.ratio

    @property
    def gain(self) -> Interval | None:
        """The ratio oriented so that above 1 the candidate is better."""
        return self.ratio if self.ratio is None or self.comparison.better == "higher" else self.ratio.inverted

    @property
    def alone_sentence(self) -> str:
        """Say so where the cell's own interval decides and only the correction leaves it inconclusive; else empty.

        For example `alone 1.42× [1.01, 1.99] would be faster; corrected for 12 comparisons it is inconclusive`.
        """
        ratio, gain, verdict = self.comparison.ratio, self.comparison.gain, self.verdict
        if verdict.word != "inconclusive" or ratio is None or gain is None or gain.low is None or gain.high is None:
            return ""
        if gain.low >= 1 / (1 + MARGIN) and gain.high <= 1 + MARGIN:
            word = "no different"
        elif gain.low <= 1 <= gain.high:
            return ""
        else:
            word = "faster" if gain.low > 1 else "slower"
        table = f"corrected for {verdict.claims} comparisons" if verdict.claims > 1 else ""
        looks = "paid for its looks after every repeat" if self.comparison.until_decided else ""
        why = " and ".join(part for part in (table, looks) if part)
        return (
            f"alone {number_format.ratio(ratio.value, ratio.low, ratio.high)} would be {word}; {why} it is inconclusive"
        )


def _adjusted(p_values: Array, cells: Sequence[Comparison], *, strict: bool) -> list[float]:
    if strict:
        return holm(p_values)
    return two_stages(p_values, _LEVEL) if _all_looked_at(cells) else benjamini_hochberg(p_values)


def _intervals(
    cells: Sequence[Comparison],
    like: Sequence[int],
    differs: Sequence[float],
    same: Sequence[float],
    *,
    strict: bool,
) -> list[Interval]:
    """Return intervals that agree with the adjusted p values.

    If c of n claims are called, they stand at c / n of the level, as Benjamini & Hochberg's last call does: that keeps
    the false coverage rate of the called ones (Benjamini & Yekutieli 2005, doi:10.1198/016214504000001907). So it does
    where a second stage called more: there an interval that reaches beyond 1 is cut at it. In the strict reading at
    1 / n of it, together (Bonferroni), and no wider than Holm's later steps leave them.
    """
    if not cells:
        return []
    by_same, by_differs = (
        _LEVEL * (1 if strict else max(1, sum(p <= _LEVEL for p in adjusted))) / len(cells)
        for adjusted in (same, differs)
    )
    equal = np.array(same) <= _LEVEL
    levels = [
        float(looks.unpaid(level, np.array([cell.blocks]), n)[0]) if cell.until_decided else level
        for cell, level, n in zip(cells, np.where(equal, by_same, by_differs).tolist(), like, strict=True)
    ]
    effects = [cell.effect for cell in cells if cell.effect]
    around = spread.together([effect.spread for effect in effects if effect.spread])
    halves = spread.half_width(around, 1 - np.array(levels)).tolist()
    called = np.where(equal, _BOUND, np.where(np.array(differs) <= _LEVEL, 0.0, np.inf)).tolist()
    every = zip(effects, halves, called, strict=True)
    return [exponential(_within(effect.value, half, limit)) for effect, half, limit in every]


def _within(value: float, half: float, limit: float) -> Interval:
    """The interval about a logarithm, cut by the call: within `limit`, or on one side of 0 where `limit` is 0."""
    low, high = value - half, value + half
    if limit:
        return Interval(value, max(low, -limit), min(high, limit))
    return Interval(value, max(low, 0.0), high) if value > 0 else Interval(value, low, min(high, 0.0))


def paid_for_looks(p_values: Array, cells: Sequence[Comparison], like: Sequence[int]) -> Array:
    """Return the p values, with the looks paid for in cells that were looked at after every block. `like`: see
    `like_claims`.
    """
    looked = np.array([cell.until_decided for cell in cells], dtype=np.bool_)
    paid_p_values = p_values.copy()
    if looked.any():
        blocks = np.array([cell.blocks for cell in cells])
        paid_p_values[looked] = looks.paid(p_values[looked], blocks[looked], np.array(like)[looked].tolist())
    return paid_p_values


def _p_values(effects: Sequence[Effect]) -> tuple[Array, Array]:
    """P values for each ratio being 1 and for it lying beyond the margin, found in a single search."""
    away = np.array([abs(effect.value) for effect in effects])
    around = [effect.spread for effect in effects if effect.spread]
    if not around:
        return away, away
    differs, same = np.split(spread.p_values(np.concatenate((away, _BOUND - away)), spread.together(around * 2)), 2)
    return differs, same


def holm(p_values: Sequence[float] | Array) -> list[float]:
    """Adjusted p values of the strict reading: Holm 1979, Scandinavian Journal of Statistics 6, 65-70."""
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    stepped = np.sort(np.asarray(p_values, dtype=np.float64)) * (count - np.arange(count))
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0) if count else stepped
    return [float(p) for p in adjusted]


def benjamini_hochberg(p_values: Sequence[float] | Array) -> list[float]:
    """Adjusted p values: Benjamini & Hochberg 1995, Journal of the Royal Statistical Society B 57, 289-300.

    They stay valid for positively dependent p values, such as those of arms that share a baseline (Benjamini &
    Yekutieli 2001).
    """
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    stepped = np.sort(np.asarray(p_values, dtype=np.float64)) * (count / np.arange(1, count + 1))
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0) if count else stepped
    return [float(p) for p in adjusted]


def two_stages(p_values: Sequence[float] | Array, level: float) -> list[float]:
    """Adjusted p values of a table measured until decided: Benjamini, Krieger & Yekutieli 2006, Biometrika 93, 491-507.

    What the first stage calls mostly has an effect, so the second corrects for the others alone. Both are those of
    Benjamini & Hochberg, at level / (1 + level). A table without any effect, where the first calls nothing, is judged
    as by them alone. No p value becomes less than it was.
    """
    alone = np.array(benjamini_hochberg(p_values))
    others = max(alone.size - int((alone * (1 + level) <= level).sum()), 1)
    second = alone * (1 + level) * others / max(alone.size, 1)
    return [float(p) for p in np.maximum(np.minimum(alone, second), p_values)]


def more_blocks(effect: Effect, blocks: int, alpha: float, like: int | None) -> int | None:
    """Return how many more blocks would make the interval exclude 0 or lie within the margin, other things equal.

    `like` is the number from `like_claims` if the study looks after every block, and None in a fixed plan.
    None if the scatter is unknown, or if more repeats alone would never suffice: then it takes more prompts.
    """
    if effect.spread is None:
        return None
    around, first = effect.spread, max(blocks, 1) + 1
    for last in _STRETCHES:
        counts = np.arange(first, last + 1, dtype=np.float64)
        dfs = counts - blocks + float(around.blocks_df)
        more = Spread(np.asarray(around.blocks * blocks / counts), dfs, around.rest, around.rest_df)
        confidence = 1 - alpha if like is None else 1 - looks.unpaid(alpha, counts, like)
        half = spread.half_width(more, confidence)
        decides = (half < abs(effect.value)) | (abs(effect.value) + half <= _BOUND)
        if decides.any():
            return int(counts[decides.argmax()]) - blocks
        first = max(first, last + 1)
    return None


def _all_blocks(effect: Effect) -> Effect:
    """Return an effect whose whole variance falls with more blocks: more starts reduce that of rounds and of starts."""
    if effect.spread is None:
        return effect
    around = effect.spread
    df = np.minimum(around.blocks_df, around.rest_df)
    return Effect(effect.value, Spread(around.blocks + around.rest, df, np.zeros_like(around.rest), math.inf))


@dataclass(frozen=True)
class Control:
    """An arm that is identical to the baseline. `is_alarming`: in some cell the two differ by more than chance."""

    arm: str
    sentence: str
    is_alarming: bool


def control(arm: str, cells: Sequence[Judged]) -> Control:
    """State how far a control's cells, as judged by `verdicts`, differ, and whether that is more than chance.

    For example `identical to the baseline: differs by 1.3 %, as runs of this study do`.
    """
    percents = [100 * abs(cell.comparison.ratio.value - 1) for cell in cells if cell.comparison.ratio is not None]
    if not percents:
        return Control(arm, "identical to the baseline, and not measured beside it", is_alarming=False)
    low, high = f"{min(percents):.1f}", f"{max(percents):.1f}"
    differs = f"differs by {low if low == high else f'{low} to {high}'} %"
    p_values = [cell.verdict.p_differs for cell in cells if cell.verdict.p_differs is not None]
    alarming = sum(p <= _LEVEL for p in p_values)
    if not p_values:
        sentence = f"identical to the baseline: {differs}; how much runs of this study differ is not known yet"
    elif alarming:
        where = f" in {alarming} of {len(percents)} cells" if len(percents) > 1 else ""
        sentence = (
            f"identical to the baseline, and yet {differs}: more than runs of this study do{where}, so something "
            "besides the arms changes its figures; look at the checks, and at what else ran on the machine"
        )
    else:
        sentence = f"identical to the baseline: {differs}, as runs of this study do"
    return Control(arm, sentence, bool(alarming))
