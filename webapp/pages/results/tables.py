"""The Results page's cards and tables: what summarises a study, and which columns stand in which order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric
from webapp.shared.cards import Card
from webapp.shared.tables import columns, metric_column
from webapp.shared.text import count, span, times

_WHERE = ["arm", "dataset", "category", "requested_output_tokens", "pattern", "concurrency"]
_CELLS = [*_WHERE, "value", "value_min", "value_max", "ratio", "ratio_min", "ratio_max", "repeats"]
_RUNS = [
    *("arm", "dataset", "category", "requested_output_tokens", "pattern", "repeat", "status", "is_valid"),
    *("output_tok_per_s", "request_per_s"),
    *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "e2e_p50_ms", "acceptance_rate", "acceptance_length"),
    *("requests_completed", "requests_failed", "duration_s", "kv_cache_usage_max", "host_cpu_mean_percent"),
    *("gpu_power_mean_w", "energy_j", "energy_j_per_output_token", "gpu_utilisation_mean_percent"),
    *("gpu_memory_used_max_bytes", "gpu_temperature_max_c", "gpu_throttled_share"),
    *("engine_version", "started_at", "run_id"),
]
#: Metrics of GPUs, left out where no run has any.
GPU = frozenset(column for column in _RUNS if column.startswith(("gpu_", "energy_")))
_FAILED = ["arm", "category", "pattern", "repeat", "error", "started_at", "run_id"]


def cells(speedups: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """The rows behind the charts, arms in the order of their legends."""
    ordered = speedups.sort_values("arm", key=lambda column: column.map(list(arms).index), kind="stable")
    return _columns(ordered, _CELLS)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """One row per run, in the units that people read; GPU columns without any value are left out."""
    table = _columns(results, _RUNS)
    scaled = [name for name in _RUNS if name in table and name in BY_NAME]
    table = table.assign(**{name: table[name] * BY_NAME[name].factor for name in scaled})
    empty = [name for name in table if name in GPU and table[name].isna().all()]
    return table.drop(columns=empty)


def saw_gpu(results: pd.DataFrame) -> bool:
    """Whether any run has a GPU metric."""
    return any(results[name].notna().any() for name in GPU if name in results)


def failed(failed_runs: pd.DataFrame) -> pd.DataFrame:
    return _columns(failed_runs, _FAILED)


def _columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns that exist; dataset and output length only if they differ between rows."""
    there = [column for column in wanted if column in frame]
    constant = {
        column
        for column in ("dataset", "requested_output_tokens")
        if column in there and len(frame[column].unique()) <= 1
    }
    return frame[[column for column in there if column not in constant]]


def cell_config(measure: Metric) -> dict[str, Any]:
    number, shown = st.column_config.NumberColumn, f"%{measure.number_format}"
    return columns(*_WHERE, "ratio", "repeats") | {
        "value": number(measure.title, format=shown, help="Mean of the repeats"),
        "value_min": number("Lowest", format=shown, help=f"Lowest repeat ({measure.shown_unit})"),
        "value_max": number("Highest", format=shown, help=f"Highest repeat ({measure.shown_unit})"),
        "ratio_min": number("Lowest ratio", format="%.2f×", help="Lowest repeat"),
        "ratio_max": number("Highest ratio", format="%.2f×", help="Highest repeat"),
    }


def run_config() -> dict[str, Any]:
    more = ("repeat", "status", "is_valid", "engine_version", "error", "started_at", "run_id")
    return columns(*_WHERE, *more) | {name: metric_column(BY_NAME[name]) for name in _RUNS if name in BY_NAME}


def best_cell(speedups: pd.DataFrame, *, higher_is_better: bool = True) -> pd.Series | None:
    """The candidate's row with the best ratio to the baseline, or None if nothing can be compared."""
    candidates = speedups[~speedups["is_baseline"] & speedups["ratio"].notna()]
    if candidates.empty:
        return None
    return candidates.sort_values("ratio", ascending=not higher_is_better).iloc[0]


def crossing(frame: pd.DataFrame) -> tuple[int, int, float] | None:
    """Where one arm's ratio first falls to 1 or below as concurrency grows: (last above, first below, estimate).

    `frame` has one arm's rows of one category. The estimate is a straight line between the two measured points in
    log2(ratio) over log2(concurrency). None where the arm stays on one side of 1.
    """
    rows = frame.sort_values("concurrency")[["concurrency", "ratio"]].dropna()
    points = list(rows.itertuples(index=False, name=None))
    for (left, above), (right, below) in pairwise(points):
        if above > 1 >= below:
            share = math.log2(above) / (math.log2(above) - math.log2(below))
            estimate = 2 ** (math.log2(left) + share * (math.log2(right) - math.log2(left)))
            return int(left), int(right), estimate
    return None


def best_card(best: pd.Series | None, noun: str) -> Card:
    if best is None:
        return Card(f"Best {noun}", "–", "Needs the baseline and another arm at the same load.")
    where = f"{best['arm']}, {best['category']}, concurrency {best['concurrency']}"
    ranged = span(best["ratio_min"], best["ratio_max"]) if best["paired_repeats"] > 1 else "one repeat: no range yet"
    return Card(f"Best {noun}", times(best["ratio"]), f"{where} ({ranged})")


def break_even_card(speedups: pd.DataFrame, best: pd.Series | None) -> Card:
    """The concurrency up to which the best arm pays, in the category where it is best."""
    label = "Stops paying at concurrency"
    if best is None:
        return Card(label, "–", "Needs the baseline and another arm at the same load.")
    keys = ("arm", "dataset", "category", "requested_output_tokens")
    same = [(speedups[key] == best[key]) | (speedups[key].isna() & pd.isna(best[key])) for key in keys]
    rows = speedups[np.logical_and.reduce(same)]
    who = f"{best['arm']}, {best['category']}"
    if found := crossing(rows):
        left, right, estimate = found
        return Card(label, f"{left} – {right}", f"{who}: crosses 1× near {estimate:.0f} by interpolation")
    most = int(rows["concurrency"].max())
    if (rows["ratio"].dropna() > 1).all():
        return Card(label, f"> {most}", f"{who}: pays at every concurrency measured")
    return Card(label, f"≤ {int(rows['concurrency'].min())}", f"{who}: does not pay at the lowest concurrency measured")


def runs_card(results: pd.DataFrame, planned: int | None) -> Card:
    """How many runs were measured. `planned`: the study's number of runs, if known."""
    completed = int((results["status"] == "completed").sum())
    failed = len(results) - completed
    of = f" of {planned}" if planned is not None and planned != completed else ""
    requests = int(results["requests_completed"].fillna(0).sum())
    lost = f"{count(failed, 'run')} failed" if failed else "none failed"
    return Card("Runs measured", f"{completed}{of}", f"{lost}, {count(requests, 'request')} answered")


def hardware_card(results: pd.DataFrame) -> Card:
    """The hardware, engines and targets of all runs."""
    engines = (results["engine"] + " " + results["engine_version"].fillna("")).str.strip()
    return Card("Hardware", _all_of(results["hardware"]), f"{_all_of(engines)}; target {_all_of(results['target'])}")


def _all_of(column: pd.Series) -> str:
    return ", ".join(sorted(set(column.dropna().astype(str)))) or "unknown"


def repeats_sentence(speedups: pd.DataFrame) -> str:
    """What the ranges on the page are based on."""
    repeats = sorted(set(speedups["repeats"].dropna().astype(int)))
    if not repeats or repeats == [1]:
        return "One repeat per cell: there are no ranges, and a single measurement is not a result."
    counted = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    return f"{counted} repeats per cell. Ranges are lowest to highest repeat, not confidence intervals."
