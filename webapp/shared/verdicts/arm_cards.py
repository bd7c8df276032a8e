"""A card for each arm: the geometric mean of its cells' ratios, with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.comparison.verdict import MARKS, Judged
from lab.metrics.number_format import bounds, times
from warehouse.queries.comparing.comparisons import Pair, StudyComparison, controls
from warehouse.queries.comparing.ratio_tables import arm_means
from webapp.shared.cards import Card, show_cards
from webapp.shared.published_data import cached_by_publication

_MOST_CARDS = 6
#: How a number of cells has a verdict.
_COUNTED = {"no difference": "no different"}
#: The geometric mean of each arm's cells.
means = cached_by_publication()(arm_means)


def show(comparison: StudyComparison, arms: Sequence[str]) -> int:
    """Show a card for each of the first arms, in this order but controls last. Return how many arms have none."""
    of_arms, arms = means(comparison), controls_last(comparison, arms)
    show_cards([card(comparison, arm, of_arms[arm]) for arm in arms[:_MOST_CARDS] if arm in of_arms])
    return max(0, len(arms) - _MOST_CARDS)


def controls_last(comparison: StudyComparison, arms: Sequence[str]) -> list[str]:
    return sorted(arms, key=controls(comparison).__contains__)


def card(comparison: StudyComparison, arm: str, mean: Judged) -> Card:
    """Return the card: `1.42×`, and below it `▲ faster over all cells [1.31, 1.54]; of 3 cells 2 faster, 1
    inconclusive`.
    """
    ratio = mean.ratio
    value = "–" if ratio is None else times(ratio.value, ratio.low, ratio.high)
    if (control := controls(comparison).get(arm)) is not None:
        return Card(arm, value, f"{MARKS['control']} control, {control.sentence}")
    within = "" if ratio is None else f" {bounds(ratio.value, ratio.low, ratio.high)}".rstrip()
    pairs = [pair for pair in comparison.pairs if pair.candidate.arm == arm]
    where = f" over all cells{within}{_of_repeats(pairs, mean)}; {_tally(pairs)}"
    where = where if len(pairs) > 1 else f"{within} in its only cell"
    return Card(arm, value, f"{MARKS[mean.verdict.word]} {mean.verdict.word}{where}")


def of_category(comparison: StudyComparison, category: str | None) -> StudyComparison:
    """Return the comparison of one category's cells (None: all); verdicts stay corrected for all cells."""
    pairs = tuple(pair for pair in comparison.pairs if category is None or pair.candidate.category == category)
    return replace(comparison, pairs=pairs)


def _of_repeats(pairs: Sequence[Pair], mean: Judged) -> str:
    """Say over how many repeats the mean is, if cells have more; those of rounds are means over each cell's own."""
    over, most = mean.comparison.repeats, max((pair.comparison.repeats for pair in pairs), default=0)
    if mean.comparison.starts or not 0 < over < most:
        return ""
    return f", from the {over} of {most} repeats that are valid in every cell"


def _tally(pairs: Sequence[Pair]) -> str:
    """Count the verdicts: `of 3 cells 2 faster, 1 inconclusive`; or `all 3 cells faster`."""
    words = [_COUNTED.get(pair.verdict.word, pair.verdict.word) for pair in pairs]
    if len(set(words)) == 1:
        return f"all {len(words)} cells {words[0]}"
    marked = [_COUNTED.get(word, word) for word in MARKS]
    return f"of {len(words)} cells {', '.join(f'{words.count(word)} {word}' for word in marked if word in words)}"
