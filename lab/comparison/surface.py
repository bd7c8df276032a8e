"""Break-even over two axes, concurrency and length of context, and how good a draft must be to pay in each cell.

A round of speculation (drafting and verifying) makes as many tokens as its acceptance length; its price is the time
that it takes, in plain steps. Where both are measured in one cell, gain = length / price, so the price is the
acceptance length at which speculation breaks even there. The price hardly depends on what the draft gets right, so it
predicts for another draft of the same size, drafting as many tokens, on which side of 1× that one will lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, permutations

from lab.comparison.breakeven import BreakEven, Point, break_even
from lab.comparison.effect import Interval
from lab.metrics.number_format import bounds


@dataclass(frozen=True)
class SurfaceCell:
    """The gain in time per token at one concurrency and context; above 1 the candidate is faster.

    `context_tokens` is the longest context of the step. `length` is the candidate's acceptance length there, None if
    unknown. `word` is the verdict.
    """

    concurrency: int
    context_tokens: int
    gain: Interval
    length: float | None = None
    word: str = ""
    requests: int = 0

    @property
    def needed_length(self) -> Interval | None:
        """Return the acceptance length at which a round costs what its tokens save: its price in plain steps."""
        return None if self.length is None else needed_length(self.length, self.gain)


@dataclass(frozen=True)
class Surface:
    """The cells of one candidate, and of each context the concurrencies at which the gain crosses 1.

    `num_speculative_tokens`: how many tokens it drafts in a round, None if unknown.
    """

    cells: tuple[SurfaceCell, ...]
    lines: Mapping[int, BreakEven] = field(default_factory=dict)
    num_speculative_tokens: int | None = None

    @property
    def contexts(self) -> tuple[int, ...]:
        return tuple(sorted({cell.context_tokens for cell in self.cells}))


def surface(cells: Sequence[SurfaceCell], num_speculative_tokens: int | None = None) -> Surface:
    """Find the break-even of each context. Raises ValueError for two cells at one concurrency and context."""
    ordered = sorted(cells, key=lambda cell: (cell.context_tokens, cell.concurrency))
    lines = {
        context: break_even([Point(cell.concurrency, cell.gain) for cell in here])
        for context, here in groupby(ordered, key=lambda cell: cell.context_tokens)
    }
    return Surface(tuple(ordered), lines, num_speculative_tokens)


def needed_length(length: float, gain: Interval) -> Interval:
    """Return the price of a round in plain steps, the acceptance length that breaks even: length / gain."""
    low, high = (None if bound is None else length / bound for bound in (gain.high, gain.low))
    return Interval(length / gain.value, low, high)


def predicted_gain(length: float, needed: float) -> float:
    """Return the gain to expect of another draft of the same size with this acceptance length."""
    return length / needed


@dataclass(frozen=True)
class PredictedSides:
    """The number of cells in which a draft lies on the side of 1× that the price of another draft's round predicts.

    `decided` are the cells whose gain is certainly on one side; in the others chance alone may put it on either.
    """

    right: int
    cells: int
    decided_right: int
    decided: int

    @property
    def words(self) -> str:
        """`in 14 of 15 cells, and in 10 of the 10 whose side is certain`."""
        certain = f"in {self.decided_right} of the {self.decided} whose side is certain"
        return f"in {self.right} of {self.cells} cells" + (
            f", and {certain}" if self.decided else ", none of them certain"
        )


def predicted_sides(known: Surface, other: Surface) -> PredictedSides:
    """Compare the sides of 1× that a draft measured with those predicted by its lengths and the known prices."""
    prices = {
        (cell.concurrency, cell.context_tokens): cell.needed_length.value
        for cell in known.cells
        if cell.needed_length is not None
    }
    right = cells = decided_right = decided = 0
    for cell in other.cells:
        needed = prices.get((cell.concurrency, cell.context_tokens))
        if needed is None or cell.length is None:
            continue
        is_right = (predicted_gain(cell.length, needed) > 1) == (cell.gain.value > 1)
        is_decided = (cell.gain.low or 0.0) > 1 or (cell.gain.high is not None and cell.gain.high < 1)
        right, cells = right + is_right, cells + 1
        decided_right, decided = decided_right + (is_right and is_decided), decided + is_decided
    return PredictedSides(right, cells, decided_right, decided)


def prediction_sentences(found: Mapping[str, Surface]) -> list[str]:
    """State for each two arms of equal k how well the round price of one predicts the sides of the other."""
    sentences = []
    for known, other in permutations(found, 2):
        drafted = found[known].num_speculative_tokens
        if drafted is None or drafted != found[other].num_speculative_tokens:
            continue
        sides = predicted_sides(found[known], found[other])
        if sides.cells:
            sentences.append(f"By what a round of {known} costs, {other} is on the expected side of 1× {sides.words}.")
    return sentences


def sentence(found: Surface) -> str:
    """`up to 512 tokens of context it pays up to 4.5 [3.2, 6.0] requests at once; up to 4,096 it is inconclusive`."""
    words = [(context, _words(even)) for context, even in found.lines.items()]
    parts = []
    for number, (said, group) in enumerate(groupby(words, key=lambda pair: pair[1])):
        contexts = [context for context, _ in group]
        unit = " tokens of context" if number == 0 else ""
        parts.append(f"up to {contexts[-1]:,}{unit} {said}")
    return "; ".join(parts) or "not measured"


def _words(even: BreakEven) -> str:
    if len(even.crossings) == 1:
        (crossing,) = even.crossings
        if crossing.low is None or crossing.high is None:
            return f"the result is inconclusive, crossing 1× near {crossing.concurrency:.1f} requests at once"
        side = "up to" if crossing.loses_above else "from"
        within = bounds(crossing.concurrency, crossing.low, crossing.high, decimals=1)
        return f"it pays {side} {crossing.concurrency:.1f} {within} requests at once"
    if even.crossings:
        return "it crosses 1× several times"
    if even.measured is None or not even.sure:
        return "it is inconclusive"
    return f"it {even.answer}"
