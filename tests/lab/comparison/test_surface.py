"""Break-even over concurrency and context, and what it says of another draft."""

from __future__ import annotations

import numpy as np
import pytest

from lab.comparison.effect import Interval
from lab.comparison.surface import (
    PredictedSides,
    Surface,
    SurfaceCell,
    needed_length,
    predicted_gain,
    predicted_sides,
    prediction_sentences,
    sentence,
    surface,
)


def cell(concurrency: int, context: int, gain: float, length: float = 3.0, reach: float = 0.05) -> SurfaceCell:
    return SurfaceCell(concurrency, context, Interval(gain, gain * (1 - reach), gain * (1 + reach)), length)


def measured() -> Surface:
    return surface([cell(1, 512, 1.6), cell(16, 512, 0.8), cell(1, 4096, 1.8), cell(16, 4096, 1.3)])


def test_each_context_has_its_own_break_even_with_its_band() -> None:
    found = measured()
    assert found.contexts == (512, 4096)
    (crossing,) = found.lines[512].crossings
    assert crossing.concurrency == pytest.approx(6.55, abs=0.01)
    assert crossing.low is not None
    assert crossing.high is not None
    assert crossing.low < crossing.concurrency < crossing.high
    assert found.lines[4096].answer == "pays everywhere measured"


def test_the_surface_is_told_in_a_sentence() -> None:
    assert sentence(measured()) == (
        "up to 512 tokens of context it pays up to 6.6 [5.3, 8.0] requests at once; "
        "up to 4,096 it pays everywhere measured"
    )
    rising = sentence(surface([cell(1, 512, 0.8), cell(16, 512, 1.6)]))
    assert rising.startswith("up to 512 tokens of context it pays from 2.4 [")
    assert (
        sentence(surface([cell(1, 512, 1.01), cell(4, 512, 1.02)])) == "up to 512 tokens of context it is inconclusive"
    )
    unsure = surface([cell(1, 512, 1.1, reach=0.5), cell(4, 512, 0.9, reach=0.5)])
    assert (
        sentence(unsure)
        == "up to 512 tokens of context the result is inconclusive, crossing 1× near 1.9 requests at once"
    )
    assert sentence(surface([])) == "not measured"


def test_contexts_of_the_same_answer_are_told_together() -> None:
    found = surface([cell(1, 256, 1.5), cell(1, 512, 1.6), cell(1, 1024, 0.7)])
    assert sentence(found) == (
        "up to 512 tokens of context it pays everywhere measured; up to 1,024 it pays nowhere measured"
    )


def test_the_needed_length_is_the_price_of_a_round_in_plain_steps() -> None:
    """A round of 3 tokens that is 1.5 times as fast as single steps takes as long as two of them."""
    assert needed_length(3.0, Interval(1.5, 1.2, 2.0)) == Interval(2.0, 1.5, 2.5)
    needed = cell(1, 512, 0.5, length=2.0).needed_length
    assert needed is not None
    assert (needed.value, needed.low, needed.high) == pytest.approx((4.0, 3.81, 4.21), abs=0.01)
    assert SurfaceCell(1, 512, Interval(1.0, None, None)).needed_length is None
    assert predicted_gain(2.5, 2.0) == 1.25


def test_a_measured_draft_is_held_against_the_sides_that_anothers_prices_foretell() -> None:
    """Rounds cost 1.875 and 3.75 plain steps; 2 tokens a round pay at the first place, and only there."""
    known = surface([cell(1, 512, 1.6), cell(16, 512, 0.8), cell(32, 512, 0.5)])
    other = surface([cell(1, 512, 1.1, 2.0), cell(16, 512, 1.02, 2.0), cell(1, 4096, 2.0, 2.0)])
    assert predicted_sides(known, other) == PredictedSides(right=1, cells=2, decided_right=1, decided=1)
    assert predicted_sides(known, other).words == "in 1 of 2 cells, and in 1 of the 1 whose side is certain"
    unsure = surface(
        [SurfaceCell(1, 512, Interval(1.1, None, None), 2.0), SurfaceCell(16, 512, Interval(0.5, 0.4, 0.6))]
    )
    assert predicted_sides(known, unsure) == PredictedSides(1, 1, 0, 0)
    assert predicted_sides(known, unsure).words == "in 1 of 1 cells, none of them certain"
    assert predicted_sides(unsure, known) == PredictedSides(1, 1, 1, 1)


def test_only_drafts_of_as_many_tokens_are_held_against_each_other() -> None:
    arms = {"small": surface([cell(1, 512, 1.6)], 3), "large": surface([cell(1, 512, 1.2)], 3)}
    others = {"longer": surface([cell(1, 512, 1.2)], 5), "unknown": surface([cell(1, 512, 1.2)])}
    elsewhere = {"elsewhere": surface([cell(1, 4096, 1.2)], 3)}
    certain = "in 1 of 1 cells, and in 1 of the 1 whose side is certain"
    assert prediction_sentences(arms | others | elsewhere) == [
        f"By what a round of small costs, large is on the expected side of 1× {certain}.",
        f"By what a round of large costs, small is on the expected side of 1× {certain}.",
    ]
    assert prediction_sentences({}) == []


def test_another_draft_lies_on_the_predicted_side_in_nine_of_ten_cells() -> None:
    """Rounds whose price grows with load and falls with context, measured with 4 % of noise in each gain; the other
    draft's own rounds cost up to 5 % more or less.
    """
    rng = np.random.default_rng(20)
    right, cells = 0, 0
    for _ in range(200):
        ours, theirs = rng.uniform(1.5, 3.5, 2)
        for concurrency in (1, 4, 16, 64):
            for context in (512, 4096, 32_768):
                price = 1.2 + 0.45 * np.log2(concurrency) / (1 + np.log2(context / 512) / 4)
                gain = ours / price * np.exp(rng.normal(0, 0.04))
                seen = theirs / (price * rng.uniform(0.95, 1.05)) * np.exp(rng.normal(0, 0.04))
                needed = needed_length(ours, Interval(gain, None, None)).value
                right += (predicted_gain(theirs, needed) > 1) == (seen > 1)
                cells += 1
    assert right / cells >= 0.9
