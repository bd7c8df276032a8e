"""Which interval is shown of a comparison, and the sentence where only the correction leaves it inconclusive."""

from __future__ import annotations

from dataclasses import replace

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.effect import Interval
from lab.comparison.verdict import Judged, Verdict, verdicts


def test_without_an_interval_the_ratio_stands_alone() -> None:
    unknown = Comparison("higher", 1, None, Interval(1.4, None, None), None, None, "1 repeat")
    (verdict,) = verdicts([unknown])
    assert (verdict.interval, Judged(unknown, verdict).ratio) == (None, unknown.ratio)


def test_a_gain_is_the_ratio_the_better_way_round() -> None:
    comparison = Comparison("lower", 3, None, Interval(0.8, 0.7, 0.9), None, None, "3 repeats")
    verdict = Verdict("faster", 0.01, 1.0, 0, Interval(0.8, 0.64, 1.0))
    assert Judged(comparison, verdict).gain == Interval(1.25, 1.0, 1 / 0.64)
    assert Judged(comparison, verdict).ratio == verdict.interval


def test_a_gain_has_no_interval_where_a_bound_is_nothing_in_floating_point() -> None:
    comparison = Comparison("lower", 2, None, Interval(0.8, 0.0, 1e300), None, None, "2 repeats")
    assert comparison.gain == Interval(1.25, None, None)
    assert Interval(0.5, 0.25, float("inf")).inverted == Interval(2.0, 0.0, 4.0)


def test_what_only_the_correction_leaves_open_is_said_in_these_words() -> None:
    compared = Comparison("higher", 3, None, Interval(1.42, 1.01, 1.99), None, None, "3 repeats")
    wider = Verdict("inconclusive", 0.2, 1.0, 1, Interval(1.42, 0.8, 2.5), claims=12)
    assert Judged(compared, wider).alone_sentence == (
        "alone 1.42× [1.01, 1.99] would be faster; corrected for 12 comparisons it is inconclusive"
    )
    looked = replace(compared, better="lower", until_decided=True)
    assert Judged(looked, replace(wider, claims=1)).alone_sentence == (
        "alone 1.42× [1.01, 1.99] would be slower; paid for its looks after every repeat it is inconclusive"
    )
    for narrow in (Interval(1.01, 1.004, 1.016), Interval(1.0, 0.99, 1.01)):
        assert " would be no different; corrected" in Judged(replace(compared, ratio=narrow), wider).alone_sentence
    assert Judged(compared, replace(wider, word="faster")).alone_sentence == ""
    assert Judged(replace(compared, ratio=Interval(1.42, 0.9, 1.99)), wider).alone_sentence == ""
    assert Judged(replace(compared, ratio=Interval(1.42, None, None)), wider).alone_sentence == ""


def test_an_empty_table_has_no_intervals() -> None:
    assert verdicts([]) == ()
    assert compare_cells([CellRuns([], [])], "higher")[0].ratio is None
