"""Published figures beside ours: in their own unit and scale, with what differs besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.published.figures import PublishedFigure
from lab.published.replication import OurRun, side_by_side

THEIRS = PublishedFigure(
    source="made-up",
    study="one",
    hardware="H200",
    engine="vllm",
    engine_version="0.13.0",
    target="big",
    method="eagle3",
    draft_model="maker/head",
    num_speculative_tokens=3,
    dataset="sharegpt",
    access_pattern="sequential",
    load="1",
    metric="output_throughput",
    printed="100",
    unit="tok/s",
    scale="absolute",
)
OURS = OurRun(
    run_id="drafted",
    arm="EAGLE-3",
    is_baseline=False,
    method="eagle3",
    draft_model="maker/head",
    num_speculative_tokens=3,
    workload="sharegpt/all/512",
    dataset="sharegpt",
    input_tokens=None,
    output_tokens=512,
    pattern="c1-n8",
    concurrency=1,
    repeat=0,
    hardware="H200",
    engine="vllm",
    engine_version="0.13.0",
    target="big",
    metrics={"output_tok_per_s": 120.0, "acceptance_rate": 0.5, "acceptance_per_position": (0.7, 0.4)},
)
BASE = replace(
    OURS,
    run_id="plain",
    arm="no draft",
    is_baseline=True,
    method="none",
    draft_model=None,
    num_speculative_tokens=None,
    metrics={"output_tok_per_s": 80.0},
)


def ours(figure: PublishedFigure, *runs: OurRun) -> float | None:
    (beside,) = side_by_side([figure], runs or (BASE, OURS))
    return beside.ours


def test_an_absolute_figure_stands_beside_the_mean_over_repeats() -> None:
    again = replace(OURS, run_id="again", metrics={"output_tok_per_s": 130.0})
    (beside,) = side_by_side([THEIRS], (BASE, OURS, again))
    assert (beside.ours, beside.ratio, beside.run_ids) == (125.0, 1.25, ("drafted", "again"))
    assert beside.differences == ()


def test_a_relative_figure_stands_beside_a_ratio_in_its_own_scale() -> None:
    (share,) = side_by_side([replace(THEIRS, scale="percent of baseline", printed="120", unit="%")], (BASE, OURS))
    assert [share.ours, share.ratio] == pytest.approx([150.0, 1.25])
    (change,) = side_by_side([replace(THEIRS, scale="percent change", printed="20", unit="%")], (BASE, OURS))
    assert [change.ours, change.ratio] == pytest.approx([50.0, 1.25])


def test_a_ratio_is_the_geometric_mean_of_the_repeats_ratios_as_everywhere() -> None:
    figure = replace(THEIRS, scale="percent of baseline", printed="120", unit="%")
    again = [
        replace(BASE, run_id="plain 2", repeat=1, metrics={"output_tok_per_s": 120.0}),
        replace(OURS, run_id="drafted 2", repeat=1, metrics={"output_tok_per_s": 120.0}),
    ]
    assert ours(figure, BASE, OURS, *again) == pytest.approx(100 * (1.5 * 1.0) ** 0.5)


def test_a_figure_over_a_sweep_is_the_geometric_mean_of_its_ratios() -> None:
    there = [replace(run, pattern="sweep c4", concurrency=4) for run in (BASE, OURS)]
    there[1] = replace(there[1], metrics={"output_tok_per_s": 80.0 * 1.2})
    figure = replace(THEIRS, scale="percent change", load="geomean", access_pattern="concurrency sweep")
    assert ours(figure, BASE, OURS, *there) == pytest.approx(((1.5 * 1.2) ** 0.5 - 1) * 100)


def test_a_peak_is_that_of_the_best_concurrency() -> None:
    more = replace(OURS, pattern="sweep c4", concurrency=4, metrics={"output_tok_per_s": 300.0})
    figure = replace(THEIRS, metric="peak_output_throughput", load="peak", access_pattern="concurrency sweep")
    assert ours(figure, OURS, more) == 300.0


def test_a_cost_is_computed_with_the_price_that_was_printed() -> None:
    figure = replace(THEIRS, metric="cost_per_million_output_tokens", unit="USD", price_usd_per_hour=3.6)
    assert ours(figure) == pytest.approx(3.6 / 3600 / 120 * 1e6)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "ngram", "draft_model": None},
        {"num_speculative_tokens": 1},
        {"dataset": "swe-bench"},
        {"load": "4"},
        {"metric": "duration"},
    ],
)
def test_what_was_not_measured_here_stands_alone(change: dict[str, object]) -> None:
    assert ours(replace(THEIRS, **change)) is None  # type: ignore[arg-type]  # names of its fields


def test_without_a_published_k_none_of_several_arms_matches() -> None:
    unsaid = replace(THEIRS, num_speculative_tokens=None)
    assert ours(unsaid) == 120.0
    assert ours(unsaid, OURS, replace(OURS, num_speculative_tokens=1)) is None


def test_the_same_draft_is_preferred_and_another_is_a_difference() -> None:
    other = replace(OURS, draft_model="other/head", metrics={"output_tok_per_s": 1.0})
    assert ours(THEIRS, OURS, other) == 120.0
    (beside,) = side_by_side([THEIRS], [other])
    assert beside.differences == ("draft model: maker/head there, other/head here",)


def test_hardware_and_versions_that_differ_are_spelt_out() -> None:
    elsewhere = replace(OURS, hardware="a laptop", engine="sglang", engine_version=None, target="hub/big")
    (beside,) = side_by_side([THEIRS], [elsewhere])
    assert beside.differences == (
        "hardware: H200 there, a laptop here",
        "engine: vllm there, sglang here",
        "engine version: 0.13.0 there, unknown here",
    )


def test_random_prompts_of_other_lengths_are_a_difference() -> None:
    made = replace(OURS, dataset="random", input_tokens=16, output_tokens=16)
    (beside,) = side_by_side([replace(THEIRS, dataset="random 1024/1024")], [made])
    assert beside.differences == ("prompts: random 1024/1024 there, random 16/16 here",)


def test_samples_files_and_other_spellings_are_the_same_dataset() -> None:
    for theirs, here in (("swe-bench", "swe_bench_sample"), ("summarization", "/data/summarisation.jsonl")):
        assert ours(replace(THEIRS, dataset=theirs), replace(OURS, dataset=here)) == 120.0


def test_each_figure_has_its_arms_runs_and_differences_in_order() -> None:
    other = replace(OURS, run_id="other", arm="again", hardware="another")
    beside = side_by_side([replace(THEIRS, metric="duration"), THEIRS], (BASE, OURS, other, OURS))
    assert [compared.figure.metric for compared in beside] == ["duration", "output_throughput"]
    nothing, both = beside
    assert (nothing.ours, nothing.ratio, nothing.run_ids) == (None, None, ("drafted", "other", "drafted"))
    assert (both.arms, both.run_ids) == (("EAGLE-3", "again"), ("drafted", "other", "drafted"))
    assert both.differences == ("hardware: H200 there, H200, another here",)
    (unmatched,) = side_by_side([replace(THEIRS, dataset="none of ours")], (BASE, OURS))
    assert (unmatched.ours, unmatched.arms, unmatched.run_ids, unmatched.differences) == (None, (), (), ())


def test_every_difference_is_spelt_out_with_both_values() -> None:
    elsewhere = replace(OURS, engine_version="0.14", target="big-2", num_speculative_tokens=5)
    unsaid = replace(THEIRS, engine_version=None, num_speculative_tokens=None)
    (beside,) = side_by_side([unsaid], [elsewhere])
    assert beside.differences == (
        "engine version: not stated there, 0.14 here",
        "target: big there, big-2 here",
        "drafted tokens: not stated there, 5 here",
    )
    plain = replace(THEIRS, method="none", draft_model=None, num_speculative_tokens=None)
    (beside,) = side_by_side([plain], [replace(BASE, draft_model="odd")])
    assert beside.differences == ()
    crowd = replace(OURS, concurrency=2)
    (beside,) = side_by_side([replace(THEIRS, load=None)], [OURS])
    assert beside.ours == 120.0
    assert side_by_side([replace(THEIRS, load="2")], [crowd])[0].differences == ()


def test_a_baseline_is_preferred_to_other_runs_without_a_draft() -> None:
    plain = replace(THEIRS, method="none", draft_model=None, num_speculative_tokens=None)
    unmarked = replace(BASE, run_id="unmarked", is_baseline=False, metrics={"output_tok_per_s": 60.0})
    assert ours(plain, BASE, unmarked) == 80.0
    assert ours(plain, unmarked) == 60.0


@pytest.mark.parametrize(
    ("metric", "column", "factor"),
    [
        ("output_throughput", "output_tok_per_s", 1),
        ("total_token_throughput", "total_tok_per_s", 1),
        ("mean_ttft", "ttft_mean_ms", 1),
        ("mean_tpot", "tpot_mean_ms", 1),
        ("p95_ttft", "ttft_p95_ms", 1),
        ("p95_itl", "itl_p95_ms", 1),
        ("median_latency", "e2e_p50_ms", 1),
        ("acceptance_rate", "acceptance_rate", 100),
        ("acceptance_length", "acceptance_length", 1),
    ],
)
def test_a_printed_metric_is_a_column_of_ours(metric: str, column: str, factor: float) -> None:
    runs = [replace(OURS, metrics={column: value}) for value in (1.0, None, 2.0)]
    assert ours(replace(THEIRS, metric=metric), *runs) == 1.5 * factor
    assert ours(replace(THEIRS, metric=metric), replace(OURS, metrics={})) is None


def test_ratios_need_a_baseline_of_the_same_place_with_a_number() -> None:
    share = replace(THEIRS, scale="percent of baseline", printed="120")
    there = replace(BASE, pattern="another")
    assert ours(share, there, OURS) is None
    assert ours(share, replace(BASE, metrics={}), OURS) is None
    assert ours(share, replace(BASE, metrics={"output_tok_per_s": 0.0}), OURS) is None
    unpaired = replace(BASE, repeat=1, metrics={"output_tok_per_s": 1.0})
    assert ours(share, BASE, unpaired, OURS) == pytest.approx(150.0)


def test_a_figure_of_nothing_has_no_ratio() -> None:
    assert side_by_side([replace(THEIRS, printed="0")], [OURS])[0].ratio is None


def test_per_position_rates_are_means_over_the_runs_that_have_the_position() -> None:
    rates = [(0.7, 0.4), (0.5,), None]
    runs = [replace(OURS, metrics={"acceptance_per_position": rate}) for rate in rates]
    assert ours(replace(THEIRS, metric="acceptance_rate_pos0"), *runs) == pytest.approx(60.0)
    assert ours(replace(THEIRS, metric="acceptance_rate_pos1"), *runs) == pytest.approx(40.0)
    assert ours(replace(THEIRS, metric="acceptance_rate_pos2"), *runs) is None


def test_prompts_without_a_name_are_any_and_random_ones_are_random() -> None:
    assert ours(replace(THEIRS, dataset="unnamed"), OURS) == 120.0
    made = replace(OURS, dataset="random", input_tokens=1024, output_tokens=128)
    (beside,) = side_by_side([replace(THEIRS, dataset="random 1024/128")], [made, OURS])
    assert (beside.ours, beside.run_ids, beside.differences) == (120.0, ("drafted",), ())
    assert ours(replace(THEIRS, dataset="random"), OURS) is None
