from __future__ import annotations

import pandas as pd
import pytest

from tests.webapp import frames
from webapp.pages.results import summary
from webapp.shared.cards import Card


def test_the_best_cell_is_the_candidates_highest_ratio() -> None:
    best = summary.best_cell(frames.speedup())
    assert best is not None
    assert (best["arm"], best["concurrency"], best["ratio"]) == ("draft k=3", 1, 1.48)


def test_for_a_latency_the_best_ratio_is_the_lowest() -> None:
    best = summary.best_cell(frames.speedup(), higher_is_better=False)
    assert best is not None
    assert best["ratio"] == 0.90


def test_nothing_is_best_before_there_is_something_to_compare() -> None:
    assert summary.best_cell(frames.speedup((frames.BASELINE,))) is None
    assert summary.best_card(None, "speed-up").value == "–"
    assert summary.break_even_card(frames.speedup((frames.BASELINE,)), None).value == "–"


def test_a_ratio_is_shown_with_its_range_over_the_repeats() -> None:
    card = summary.best_card(summary.best_cell(frames.speedup()), "speed-up")
    assert card.value == "1.48×"
    assert card.detail == "draft k=3, code, concurrency 1 (1.44–1.52×)"


def test_one_repeat_has_no_range_and_that_is_said() -> None:
    card = summary.best_card(summary.best_cell(frames.speedup(repeats=1)), "speed-up")
    assert "no range yet" in card.detail
    assert "a single measurement is not a result" in summary.repeats_sentence(frames.speedup(repeats=1))


def test_ranges_are_never_called_confidence_intervals() -> None:
    assert "not confidence intervals" in summary.repeats_sentence(frames.speedup(repeats=3))


def test_where_it_stops_paying_is_between_two_measured_concurrencies() -> None:
    speedups = frames.speedup(categories=("code",))
    card = summary.break_even_card(speedups, summary.best_cell(speedups))
    assert card.value == "1 – 4"
    assert "near 4 by interpolation" in card.detail


def test_the_crossing_is_a_straight_line_in_logarithms() -> None:
    rows = pd.DataFrame({"concurrency": [1, 4], "ratio": [2.0, 0.5]})
    found = summary.crossing(rows)
    assert found is not None
    assert found[:2] == (1, 4)
    assert found[2] == pytest.approx(2.0)


def test_an_arm_that_always_pays_or_never_does_is_said_to() -> None:
    always = frames.speedup((frames.BASELINE, frames.NGRAM))
    never = frames.speedup((frames.BASELINE, frames.ArmRatios("bad", "ngram", (0.9, 0.8, 0.7))))
    assert summary.break_even_card(always, summary.best_cell(always)).value == "> 16"
    assert summary.break_even_card(never, summary.best_cell(never)).value == "≤ 1"


def test_failed_runs_are_counted_apart_from_measured_ones() -> None:
    results = pd.DataFrame({"status": ["completed", "completed", "failed"], "requests_completed": [8, 16, None]})
    assert summary.runs_card(results, 4) == Card("Runs measured", "2 of 4", "1 run failed, 24 requests answered")
    assert summary.runs_card(results, None).value == "2"


def test_several_machines_are_all_named() -> None:
    results = pd.DataFrame(
        {
            "hardware": ["H200", "L4", "L4"],
            "engine": ["vllm"] * 3,
            "engine_version": ["0.32.0", "0.32.0", None],
            "target": ["reference"] * 3,
        }
    )
    card = summary.hardware_card(results)
    assert card.value == "H200, L4"
    assert card.detail == "vllm, vllm 0.32.0; target reference"
