"""The tables of the Results page: which columns, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric
from webapp.shared.tables import columns, metric_column

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
