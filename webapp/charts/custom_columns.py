"""Classifies the columns of any table for charts: ordered, with an interval, or summable."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from pandas.api import types

#: Numbers that say under which conditions something was measured.
_CONDITIONS = frozenset(
    (
        "concurrency",
        "num_speculative_tokens",
        "k",
        "num_prompts",
        "request_rate_rps",
        "rate_rps",
        "input_tokens",
        "requested_output_tokens",
        "repeat",
        "attempt",
        "launch_index",
        "trial_number",
        "position",
        "temperature",
        "top_p",
        "burstiness",
        "hour",
        "day",
    )
)
#: A whole number in a unit was measured, even if it is rounded.
_WITH_UNIT = re.compile(r"_per_|(^|_)(ms|us|s|j|w|usd|bytes|mib|gib|percent|tokens?)$")
#: Column names whose values are counts or sums, as DuckDB and the warehouse name them.
_ADDED = re.compile(
    r"count_star\(\)|(count|sum)\([^()]*\)|n|(.+_)?(count|sum|total|runs|requests|rounds|failures|findings)"
    r"|(num|number_of|count|sum|total|requests)_.+"
)
_NEVER_ADDED = re.compile(
    r"_per_|rate|ratio|share|percent|fraction|speed_?up|mean|avg|average|median|quantile|length|usage"
    r"|(^|[_(])(p\d+|min|max)([_.)]|$)"
)
_INTERVALS = (("low", "high"), ("ci_low", "ci_high"), ("lower", "upper"))
_NESTED = (list, dict, tuple, np.ndarray)


def drawable(frame: pd.DataFrame) -> list[str]:
    """Return the columns with one plain value per row; lists and structs cannot be drawn on an axis."""
    return [
        str(name)
        for name in frame.columns
        if not (types.is_object_dtype(frame[name]) and frame[name].map(lambda value: isinstance(value, _NESTED)).any())
    ]


def with_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with decimals, such as DuckDB's sums of integers, as floats, which can be drawn."""
    decimals = [
        name
        for name in frame.columns
        if types.is_object_dtype(frame[name]) and types.infer_dtype(frame[name], skipna=True) == "decimal"
    ]
    return frame.astype(dict.fromkeys(decimals, float))


def is_number(column: pd.Series) -> bool:
    return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)


def is_time(column: pd.Series) -> bool:
    return types.is_datetime64_any_dtype(column)


def is_ordered(column: pd.Series) -> bool:
    """Return whether the column has times, or numbers that are conditions of a measurement rather than its result."""
    name = str(column.name)
    if is_time(column) or (is_number(column) and name in _CONDITIONS):
        return True
    return types.is_integer_dtype(column) and not may_be_added(name) and not _WITH_UNIT.search(name)


def may_be_added(name: str) -> bool:
    """Return whether the column is a count or a sum, by its name. Percentiles, means, rates and ratios have no
    meaningful sum.
    """
    return name not in _CONDITIONS and bool(_ADDED.fullmatch(name)) and not _NEVER_ADDED.search(name)


def interval_of(frame: pd.DataFrame, measure: str) -> tuple[str, str] | None:
    """Return the columns with the interval of a measure: `x_low` and `x_high` for `x`, or `low` and `high`.

    The interval must contain the measure in every row, or it belongs to something else.
    """
    for low, high in [(f"{measure}_{low}", f"{measure}_{high}") for low, high in _INTERVALS] + list(_INTERVALS):
        if measure in (low, high) or not {low, high} <= set(frame.columns):
            continue
        rows = frame[[measure, low, high]]
        if not all(is_number(rows[column]) for column in rows):
            continue
        complete = rows.dropna()
        if not complete.empty and (complete[measure].between(complete[low], complete[high])).all():
            return low, high
    return None
