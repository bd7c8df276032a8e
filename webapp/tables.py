"""The results page's tables: which columns, in which order, with which titles, units and formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from webapp.charts.measures import Measure

_WHERE = ["arm", "dataset", "category", "requested_output_tokens", "pattern", "concurrency"]
_CELLS = [*_WHERE, "value", "value_min", "value_max", "ratio", "ratio_min", "ratio_max", "repeats"]
_RUNS = [
    *("arm", "dataset", "category", "requested_output_tokens", "pattern", "repeat", "status"),
    *("output_tok_per_s", "request_per_s"),
    *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "e2e_p50_ms", "acceptance_rate", "acceptance_length"),
    *("requests_completed", "requests_failed", "duration_s", "engine_version", "started_at", "run_id"),
]
_FAILED = ["arm", "category", "pattern", "repeat", "error", "started_at", "run_id"]


def cells(speedups: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """The rows behind the charts, arms in the order of their legends."""
    ordered = speedups.sort_values("arm", key=lambda column: column.map(list(arms).index), kind="stable")
    return _columns(ordered, _CELLS)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """One row a run. Acceptance in percent."""
    table = _columns(results, _RUNS)
    return table.assign(acceptance_rate=table["acceptance_rate"] * 100)


def failed(failed_runs: pd.DataFrame) -> pd.DataFrame:
    return _columns(failed_runs, _FAILED)


def _columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """A column in which every row says the same ("reference", no category) is left out where others tell rows apart."""
    there = [column for column in wanted if column in frame]
    dull = {
        column for column in ("dataset", "requested_output_tokens") if column in there and len(set(frame[column])) <= 1
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
        "engine_version": st.column_config.TextColumn("Engine version"),
        "error": st.column_config.TextColumn("Error, in the engine's words", width="large"),
        "started_at": st.column_config.DatetimeColumn("Started", format="YYYY-MM-DD HH:mm:ss"),
        "run_id": st.column_config.TextColumn("Run"),
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
