"""The Explore page's tables: the runs of a slice, and groups of requests."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from webapp.charts.explore.axes import DIMENSIONS, LATENCIES, NUMBERS, Axis, natural
from webapp.charts.explore.pooled import PERCENTILES
from webapp.pages.explore.figures import ALWAYS
from webapp.pages.explore.selection import Selection
from webapp.shared.tables import columns, metric_column

_FIRST = ("arm", "dataset", "category", "load", "concurrency", "repeat")
_LAST = ("method", "draft_model", "k", "request_rate", "engine", "hardware", "target", "study", "origin", "source")
_ORIGINS = ["measured", "imported", "published"]
#: Columns that stay even where they are empty, because the links are made from them.
_LINKED = ("run_id", "job_id")
_AXES = {axis.column: axis for axis in (*NUMBERS, *DIMENSIONS, *LATENCIES)}


def runs(found: pd.DataFrame, view: Selection) -> pd.DataFrame:
    """Runs measured here come first, the chart's own numbers precede others, and columns without values are dropped."""
    numbers = [name for name in dict.fromkeys([*view.numbers, *ALWAYS]) if name in found]
    wanted = [*_FIRST, *numbers, *_LAST, "is_valid", "started_at", "run_id", "job_id"]
    table = found[[name for name in wanted if name in found]]
    table = table.sort_values("origin", key=lambda origins: origins.map(_ORIGINS.index), kind="stable")
    table = table.assign(**{name: table[name] * _AXES[name].factor for name in numbers})
    return _counted(table).drop(columns=[name for name in table if name not in _LINKED and table[name].isna().all()])


def _counted(table: pd.DataFrame) -> pd.DataFrame:
    """Numeric dimensions as numbers, null where unknown."""
    there = [name for name in ("concurrency", "k") if name in table]
    return table.assign(**{name: pd.to_numeric(table[name], errors="coerce") for name in there})


def run_config(view: Selection) -> dict[str, Any]:
    numbers = {name: _number(_AXES[name]) for name in (*view.numbers, *ALWAYS)}
    return {
        **_words(),
        **columns("repeat", "is_valid", "started_at", "run_id"),
        **numbers,
        "source": st.column_config.TextColumn("Source", help="Where the run comes from"),
        "job_id": None,
    }


def groups(found: pd.DataFrame) -> pd.DataFrame:
    """Groups sorted by their dimensions, numbers by size."""
    rest = [axis.column for axis in DIMENSIONS if axis.column in found and axis.column != "origin"]
    table = found.sort_values(rest, key=lambda values: values.map(natural))
    return _counted(table[[*rest, "origin", "runs", "values", *(f"p{q}" for q in PERCENTILES)]])


def group_config(view: Selection) -> dict[str, Any]:
    number, latency = st.column_config.NumberColumn, view.latency.column.upper()
    return {
        **_words(),
        **columns("runs"),
        "values": number("Values", format="%,d", help="Number of requests, or of their tokens or chunks"),
        **{f"p{q}": number(f"{latency} p{q} (ms)", format="%,.4g") for q in PERCENTILES},
    }


def _words() -> dict[str, Any]:
    dimensions = {axis.column: st.column_config.TextColumn(axis.label) for axis in DIMENSIONS}
    return dimensions | columns("arm", "concurrency", "k")


def _number(axis: Axis) -> Any:
    if (metric := BY_NAME.get(axis.column)) is not None:
        return metric_column(metric)
    return st.column_config.NumberColumn(axis.title, format="%,.4g", help=axis.about or None)
