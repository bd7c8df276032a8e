"""The published figures as they ship with the project, and what the checks say of them."""

from __future__ import annotations

import pytest

from lab.published import book
from tests.cli.homes import REPOSITORY
from tests.lab.published.test_checks import figure
from warehouse.schema import published_columns as columns


def sentences(check: str) -> list[str]:
    return [finding.sentence for finding in book.doubts() if finding.check == check]


def test_all_198_figures_are_there_with_their_source() -> None:
    assert len(book.figures()) == 198
    assert {figure.source for figure in book.figures()} <= set(book.sources())
    assert all(source.method and source.title for source in book.sources().values())


def test_every_preset_that_a_source_names_exists() -> None:
    named = [source.preset for source in book.sources().values() if source.preset]
    named += [name for source in book.sources().values() for name in source.presets.values()]
    assert not [name for name in named if not (REPOSITORY / "presets" / f"{name}.toml").exists()]


def test_a_ratio_is_read_from_both_ways_to_print_it() -> None:
    assert figure("output_throughput", "125.4", scale="percent of baseline").ratio_to_baseline == pytest.approx(1.254)
    assert figure("median_latency", "-20.3", scale="percent change").ratio_to_baseline == pytest.approx(0.797)
    assert figure("output_throughput", "125.4").ratio_to_baseline is None


def test_acceptance_length_follows_from_rate_and_k_in_every_published_row() -> None:
    assert sentences("acceptance_lengths") == sentences("acceptance_positions") == []


def test_the_two_identical_tables_are_told() -> None:
    (sentence,) = sentences("identical_tables")
    assert sentence.startswith("all 4 figures of Apple M2 16GB (MPS) and NVIDIA T4 15GB are the same to the last digit")


def test_the_tau_example_that_does_not_follow_is_told() -> None:
    (sentence,) = sentences("tau_examples")
    assert sentence.startswith("about 4.5 tokens a round for acceptance 0.8 and 5 drafted tokens does not follow")
    assert sentence.endswith("which gives 3.69")


def test_costs_that_say_another_throughput_than_the_table_are_told() -> None:
    (sentence,) = sentences("cost_ratios")
    assert "4.41 and 3.56 USD per million output tokens at 41.62 USD per hour are 2622 and 3248 tok/s" in sentence
    assert "+23.9 %; the throughput on swe-bench is given as +20.5 % (geomean)" in sentence


def test_the_cold_run_beside_the_warm_one_is_told() -> None:
    (sentence,) = sentences("contradictions")
    assert sentence.startswith("output_throughput is 158 and 37 tok/s in the same setting")


def test_outputs_shorter_than_asked_are_told() -> None:
    (sentence,) = sentences("total_throughputs")
    assert sentence.startswith(
        "258.95 tok/s in all beside 124.73 tok/s of output does not fit 1024 input and 1024 output tokens"
    )


def test_runs_have_columns_in_drafthouses_own_units() -> None:
    made = columns.runs(book.figures())
    best = next(run for run in made if run.metrics["output_tok_per_s"] == 180.67)
    assert best.metrics["acceptance_rate"] == pytest.approx(0.7058)
    assert best.metrics["acceptance_per_position"] == pytest.approx((0.7058,))
    assert (best.first.max_concurrency, best.status) == (1, "completed")
    assert len({run.run_id for run in made}) == len(made)


def test_two_values_of_one_setting_are_two_runs() -> None:
    rates = [
        run.metrics["output_tok_per_s"]
        for run in columns.runs(book.figures())
        if (run.first.source, run.first.num_speculative_tokens) == ("friday-night-2025-12", 1)
    ]
    assert rates == [158.0, 37.0]
