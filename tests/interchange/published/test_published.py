"""The published figures as they ship with the project, and what the checks say of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from lab.published import book, checks
from lab.published.figures import PublishedFigure, TauClaim
from tests.cli.homes import REPOSITORY
from warehouse.schema import published_columns as columns


def sentences(check: str) -> list[str]:
    return [finding.sentence for finding in book.doubts() if finding.check == check]


def figure(metric: str, printed: str, **changes: object) -> PublishedFigure:
    """A figure of one made-up run."""
    made = PublishedFigure(
        source="made-up",
        study="one",
        hardware="a GPU",
        engine="vllm",
        engine_version="1",
        target="big",
        method="eagle3",
        draft_model="small",
        num_speculative_tokens=3,
        dataset="random 1024/1024",
        access_pattern="sequential",
        load="1",
        metric=metric,
        printed=printed,
        unit="%",
        scale="absolute",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # names of its fields


def test_all_198_figures_are_there_with_their_source() -> None:
    assert len(book.figures()) == 198
    assert {figure.source for figure in book.figures()} <= set(book.sources())
    assert all(source.method and source.title for source in book.sources().values())


def test_every_preset_that_a_source_names_exists() -> None:
    named = [source.preset for source in book.sources().values() if source.preset]
    named += [name for source in book.sources().values() for name in source.presets.values()]
    assert not [name for name in named if not (REPOSITORY / "presets" / f"{name}.toml").exists()]


def test_relative_figures_stay_relative() -> None:
    relative = [figure for figure in book.figures() if figure.scale != "absolute"]
    assert Counter(figure.scale for figure in relative) == {"percent of baseline": 70, "percent change": 11}
    assert all(figure.unit == "%" and figure.ratio_to_baseline is not None for figure in relative)
    used = {id(figure) for run in columns.runs(book.figures()) for figure in run.figures}
    assert not [figure for figure in relative if id(figure) in used]


def test_a_ratio_is_read_from_both_ways_to_print_it() -> None:
    assert figure("output_throughput", "125.4", scale="percent of baseline").ratio_to_baseline == pytest.approx(1.254)
    assert figure("median_latency", "-20.3", scale="percent change").ratio_to_baseline == pytest.approx(0.797)
    assert figure("output_throughput", "125.4").ratio_to_baseline is None


def test_acceptance_length_follows_from_rate_and_k_in_every_published_row() -> None:
    assert sentences("acceptance_lengths") == sentences("acceptance_positions") == []


def test_an_acceptance_length_that_does_not_follow_is_told() -> None:
    made = [figure("acceptance_rate", "27.46"), figure("acceptance_length", "2.10", unit="tokens")]
    (finding,) = checks.acceptance_lengths(made)
    assert "2.10 does not follow from an acceptance rate of 27.46 % with 3 speculative tokens" in finding.sentence
    assert finding.sentence.endswith("which gives 1.82")


def test_positions_that_rise_or_do_not_add_up_are_told() -> None:
    made = [figure("acceptance_rate_pos0", "20"), figure("acceptance_rate_pos1", "30")]
    rises, sum_ = checks.acceptance_positions([*made, figure("acceptance_length", "1.9", unit="tokens")])
    assert "which cannot be" in rises.sentence
    assert "1.50" in sum_.sentence


def test_the_two_identical_tables_are_told() -> None:
    (sentence,) = sentences("identical_tables")
    assert sentence.startswith("all 4 figures of Apple M2 16GB (MPS) and NVIDIA T4 15GB are the same to the last digit")


def test_the_tau_example_that_does_not_follow_is_told() -> None:
    (sentence,) = sentences("tau_examples")
    assert sentence.startswith("about 4.5 tokens a round for acceptance 0.8 and 5 drafted tokens does not follow")
    assert sentence.endswith("which gives 3.69")
    assert checks.tau_examples([TauClaim("made-up", 0.8, 5, "3.7")]) == []


def test_costs_that_say_another_throughput_than_the_table_are_told() -> None:
    (sentence,) = sentences("cost_ratios")
    assert "4.41 and 3.56 USD per million output tokens at 41.62 USD per hour are 2622 and 3248 tok/s" in sentence
    assert "+23.9 %; the throughput on swe-bench is given as +20.5 % (geomean)" in sentence


def test_a_cost_is_compared_with_the_throughput_of_its_own_setting() -> None:
    cost = figure("cost_per_million_output_tokens", "4.41", unit="USD", price_usd_per_hour=41.62)
    rate = figure("output_throughput", "2622", unit="tok/s")
    assert checks.costs([cost, rate]) == []
    (finding,) = checks.costs([cost, replace(rate, printed="2000")])
    assert finding.sentence.endswith("which gives 5.78 to 5.78")


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


def test_what_did_not_start_is_a_failed_run() -> None:
    failed = [run for run in columns.runs(book.figures()) if run.status == "failed"]
    assert [(run.first.engine, run.metrics["output_tok_per_s"]) for run in failed] == [("sglang", None), ("vllm", None)]


def test_two_values_of_one_setting_are_two_runs() -> None:
    rates = [
        run.metrics["output_tok_per_s"]
        for run in columns.runs(book.figures())
        if (run.first.source, run.first.num_speculative_tokens) == ("friday-night-2025-12", 1)
    ]
    assert rates == [158.0, 37.0]
