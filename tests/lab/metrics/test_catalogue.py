"""The catalogue of metrics: what each declares, how its numbers are shown, and that nobody else declares it again."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from lab.metrics.catalogue import (
    BY_NAME,
    CAPACITIES,
    COSTS,
    DERIVED,
    LATENCIES,
    METRICS,
    SAMPLED,
    SHORT_NAMES,
    STATISTICS,
    better,
)
from lab.metrics.definition import Metric

ROOT = Path(__file__).parents[3]
EVERY = (*METRICS, *DERIVED, *COSTS, *LATENCIES.values(), *SAMPLED)
#: Rooms whose pages, charts, tables and commands show metrics.
SHOWING = ("webapp", "cli")


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: str(metric.name))
def test_every_metric_has_a_label_unit_format_and_formula(metric: Metric) -> None:
    assert metric.label[0].isupper() or metric.label.startswith("p")
    assert metric.formula
    assert metric.shown_unit
    assert metric.format(12.5)


def test_names_and_labels_of_a_runs_metrics_are_unique() -> None:
    every = (*METRICS, *DERIVED, *COSTS, *CAPACITIES)
    assert max(Counter(metric.name for metric in every).values()) == 1
    assert max(Counter(metric.label for metric in every).values()) == 1
    assert max(Counter(metric.heading for metric in every).values()) == 1
    assert set(BY_NAME) == {metric.name for metric in every}


def test_every_latency_has_every_statistic() -> None:
    assert {f"{name}_{statistic}_ms" for name in LATENCIES for statistic in STATISTICS} <= set(BY_NAME)
    assert BY_NAME["tpot_p99_ms"].label == "Time per output token p99"
    assert BY_NAME["tpot_p99_ms"].short_label == "TPOT p99"
    assert BY_NAME["tpot_p99_ms"].comment.endswith("[ms; lower is better]")


def test_short_names_are_of_metrics_with_a_direction() -> None:
    assert {better(name) for name in SHORT_NAMES.values()} == {"higher", "lower"}


@pytest.mark.parametrize("name", ["requests_completed", "no_such_metric"])
def test_a_metric_without_a_better_direction_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has no better direction"):
        better(name)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("output_tok_per_s", 1234.56, "1,235 tok/s"),
        ("request_per_s", 0.456, "0.456 requests/s"),
        ("acceptance_rate", 0.6543, "65.4 %"),
        ("gpu_memory_used_max_bytes", 3 * 2.0**29, "1.50 GiB"),
        ("host_cpu_mean_percent", 12.34, "12.3 %"),
        ("engine_waiting_mean", 1.25, "1.2 requests"),
        ("num_drafts", 1200, "1,200 rounds"),
        ("cost_per_million_output_tokens", 0.0123456, "0.0123 currency"),
        ("cost_per_million_output_tokens", 12345.6, "12,346 currency"),
        ("ttft_p50_ms", None, "–"),
        ("ttft_p50_ms", float("nan"), "–"),
        ("ttft_p50_ms", 0.0, "0 ms"),
    ],
)
def test_a_number_is_shown_in_its_unit_and_format(name: str, value: float | None, shown: str) -> None:
    assert BY_NAME[name].format_with_unit(value) == shown


def test_a_metric_with_several_values_shows_each() -> None:
    assert BY_NAME["acceptance_per_position"].format((0.71, 0.5)) == "71.0, 50.0"


def test_titles_and_headings_have_the_shown_unit_and_counts_need_none() -> None:
    assert BY_NAME["acceptance_rate"].title == "Acceptance rate (%)"
    assert BY_NAME["acceptance_rate"].heading == "Accepted (%)"
    assert BY_NAME["acceptance_length"].heading == "Tokens per round"
    assert BY_NAME["requests_failed"].heading == "Failed"
    assert BY_NAME["cost_per_request"].heading == "Per request (currency)"


def test_only_rates_speed_up() -> None:
    assert BY_NAME["output_tok_per_s"].ratio_label == "Speed-up"
    assert BY_NAME["ttft_p50_ms"].ratio_label == "Ratio to the baseline"
    assert BY_NAME["acceptance_length"].ratio_label == "Ratio to the baseline"


def test_no_page_chart_or_command_writes_a_metrics_label_itself() -> None:
    # "Output tokens" and "Drafted tokens" are also what a study asks for.
    labels = {metric.label for metric in EVERY if " " in metric.label and metric.unit != "tokens"}
    written = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for room in SHOWING
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.split(" (")[0] in labels
    ]
    assert written == [], "take the label from lab.metrics.catalogue"
