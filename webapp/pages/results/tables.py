"""The results page's tables: which columns, in which order, with which titles, units and formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from webapp.charts.measures import Measure
from webapp.shared.tables import RUN_COLUMN

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
#: What only a GPU has: left out where no run has any.
GPU = frozenset(column for column in _RUNS if column.startswith(("gpu_", "energy_")))
#: Column of the warehouse -> factor to the unit of the table.
_SCALED = {
    "acceptance_rate": 100.0,
    "kv_cache_usage_max": 100.0,
    "gpu_throttled_share": 100.0,
    "gpu_memory_used_max_bytes": 2.0**-30,
}
_FAILED = ["arm", "category", "pattern", "repeat", "error", "started_at", "run_id"]


def cells(speedups: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """The rows behind the charts, arms in the order of their legends."""
    ordered = speedups.sort_values("arm", key=lambda column: column.map(list(arms).index), kind="stable")
    return _columns(ordered, _CELLS)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """One row a run. Shares in percent, memory in GiB; what no run has is left out."""
    table = _columns(results, _RUNS)
    table = table.assign(**{name: table[name] * factor for name, factor in _SCALED.items() if name in table})
    empty = [name for name in table if name in GPU and table[name].isna().all()]
    return table.drop(columns=empty)


def saw_gpu(results: pd.DataFrame) -> bool:
    """Whether any run has a figure of a GPU."""
    return any(results[name].notna().any() for name in GPU if name in results)


def failed(failed_runs: pd.DataFrame) -> pd.DataFrame:
    return _columns(failed_runs, _FAILED)


def _columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """A column in which every row says the same ("reference", no category) is left out where others tell rows apart."""
    there = [column for column in wanted if column in frame]
    dull = {
        column
        for column in ("dataset", "requested_output_tokens")
        if column in there and len(frame[column].unique()) <= 1
    }
    return frame[[column for column in there if column not in dull]]


def cell_config(measure: Measure) -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return _words() | {
        "value": number(measure.title, format="%,.1f", help="Mean over repeats"),
        "value_min": number("Lowest", format="%,.1f", help=f"Lowest repeat ({measure.unit})"),
        "value_max": number("Highest", format="%,.1f", help=f"Highest repeat ({measure.unit})"),
        "ratio": number("To baseline", format="%.2f×", help="Mean of the repeats' ratios to the baseline"),
        "ratio_min": number("Lowest ratio", format="%.2f×"),
        "ratio_max": number("Highest ratio", format="%.2f×"),
        "repeats": number("Repeats", format="%d", width="small"),
    }


def run_config() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return _words() | {
        "repeat": number("Repeat", format="%d", width="small", help="Counted from 0"),
        "status": st.column_config.TextColumn("Status", width="small"),
        "is_valid": st.column_config.CheckboxColumn("Valid", help="The tab Checks says why not"),
        "output_tok_per_s": number("Output (tok/s)", format="%,.1f"),
        "request_per_s": number("Requests (1/s)", format="%,.2f"),
        "ttft_p50_ms": number("TTFT p50 (ms)", format="%,.0f"),
        "ttft_p99_ms": number("TTFT p99 (ms)", format="%,.0f"),
        "tpot_p50_ms": number("TPOT p50 (ms)", format="%,.1f"),
        "e2e_p50_ms": number("E2E p50 (ms)", format="%,.0f"),
        "acceptance_rate": number("Accepted (%)", format="%.1f", help="Accepted of drafted tokens"),
        "acceptance_length": number("Tokens per round", format="%.2f", help="1 + accepted tokens per draft"),
        "requests_completed": number("Answered", format="%d"),
        "requests_failed": number("Failed", format="%d"),
        "duration_s": number("Window (s)", format="%.1f", help="Start of the load to the last answer"),
        "kv_cache_usage_max": number("KV cache (%)", format="%.0f", help="Most of the engine's KV cache in use"),
        "host_cpu_mean_percent": number("Host CPU (%)", format="%.0f", help="Mean of all processors of the host"),
        "gpu_power_mean_w": number("GPU power (W)", format="%,.0f", help="Mean, of all GPUs of the engine together"),
        "energy_j": number("Energy (J)", format="%,.0f", help="GPU power integrated over the window"),
        "energy_j_per_output_token": number("Energy (J/token)", format="%.3f", help="Of each output token"),
        "gpu_utilisation_mean_percent": number("GPU use (%)", format="%.0f", help="Mean share of time computing"),
        "gpu_memory_used_max_bytes": number("GPU memory (GiB)", format="%.1f", help="Most in use, all together"),
        "gpu_temperature_max_c": number("GPU (°C)", format="%.0f", help="Highest of the hottest"),
        "gpu_throttled_share": number("GPU held back (%)", format="%.0f", help="Samples with clocks held back"),
        "engine_version": st.column_config.TextColumn("Engine version"),
        "error": st.column_config.TextColumn("Error, in the engine's words", width="large"),
        "started_at": st.column_config.DatetimeColumn("Started", format="YYYY-MM-DD HH:mm:ss"),
        "run_id": RUN_COLUMN,
    }


def _words() -> dict[str, Any]:
    text = st.column_config.TextColumn
    return {
        "arm": text("Arm", pinned=True),
        "dataset": text("Dataset"),
        "requested_output_tokens": st.column_config.NumberColumn("Output tokens", format="%d", width="small"),
        "category": text("Category"),
        "pattern": text("Load", help="c: requests in flight, n: number of prompts"),
        "concurrency": st.column_config.NumberColumn("Concurrency", format="%d", width="small"),
    }
