"""The Compare page's tables: which columns, in which order, with which titles, units and formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from webapp.pages.compare.data import LATENCIES
from webapp.pages.compare.rows import PERCENTILES as _PERCENTS

_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn


def crossings(rows: pd.DataFrame) -> pd.DataFrame:
    """Of `compare_rows.crossings`, in words."""
    said = [_said(row) for row in rows.to_dict("records")]
    return pd.DataFrame(
        {
            "arm": rows["arm"],
            "workload": rows["workload"],
            "answer": said,
            "concurrency": rows["concurrency"],
            "low": rows["low"],
            "high": rows["high"],
            "sure": rows["sure"],
        }
    )


def _said(row: Mapping[Any, Any]) -> str:
    """`pays up to 4.5`, `pays from 8`, or at every concurrency that was measured."""
    if pd.notna(row["concurrency"]):
        return f"pays {'up to' if row['loses_above'] else 'from'} {row['concurrency']:.1f}"
    measured = "" if pd.isna(row["least"]) else f" ({row['least']:.0f} to {row['most']:.0f})"
    return f"{row['answer']}{measured}"


CROSSINGS: dict[str, Any] = {
    "arm": _text("Arm", pinned=True),
    "workload": _text("Workload"),
    "answer": _text("Against the baseline", help="Concurrency is requests in flight"),
    "concurrency": _number("Crosses 1× at concurrency", format="%.1f"),
    "low": _number("95 % from", format="%.1f", help="Empty: beyond what was measured, or no interval"),
    "high": _number("95 % to", format="%.1f", help="Empty: beyond what was measured, or no interval"),
    "sure": st.column_config.CheckboxColumn("Sure", help="Each concurrency's own interval lies on its side of 1×"),
}


def percentiles(rows: pd.DataFrame) -> pd.DataFrame:
    """Of `compare_rows.percentiles`: each latency's arms below each other."""
    order = list(LATENCIES)
    ordered = rows.sort_values("latency", key=lambda column: column.map(order.index), kind="stable")
    return ordered.assign(latency=ordered["latency"].map(LATENCIES))[["latency", "arm", *_names(), "requests"]]


def _names() -> list[str]:
    return [f"p{percent}" for percent in _PERCENTS]


PERCENTILES: dict[str, Any] = {
    "latency": _text("Latency", pinned=True),
    "arm": _text("Arm"),
    "requests": _number("Requests", format="%,d", help="All repeats together"),
} | {name: _number(f"{name} (ms)", format="%,.1f") for name in _names()}
