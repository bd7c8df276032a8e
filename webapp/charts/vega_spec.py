"""Charts as Vega-Lite specifications, made once per figure, as each takes tens of milliseconds.

How Altair handles data frames is a setting of the whole process, which Streamlit changes while it draws for another
visitor. So the rows are put into the specification here.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any
from weakref import WeakKeyDictionary

import altair as alt
import numpy as np
import pandas as pd
from altair.utils import sanitize_pandas_dataframe
from streamlit.dataframe_util import convert_anything_to_arrow_bytes

from webapp.charts.panels import Figure
from webapp.charts.theme import Mode, configuration

#: The text of a specification, and its rows as the browser reads them, by their name.
_Spec = tuple[str, dict[str, bytes]]
_CACHE: WeakKeyDictionary[Figure, dict[Mode, list[_Spec]]] = WeakKeyDictionary()
#: Attributes of a chart that may hold charts.
_PARTS = ("layer", "concat", "hconcat", "vconcat")


def of_panels(figure: Figure, mode: Mode) -> list[dict[str, Any]]:
    """Return each panel in the theme of a mode, for `st.vega_lite_chart`; the caller may change the copies.

    Rows are Arrow already, which Streamlit passes on unchanged. A cached figure keeps both.
    """
    cached = _CACHE.setdefault(figure, {})
    if mode not in cached:
        cached[mode] = [_split(chart, title, mode) for title, chart in figure.panels]
    return [json.loads(text) | ({"datasets": dict(rows)} if rows else {}) for text, rows in cached[mode]]


def _split(chart: Any, title: str, mode: Mode) -> _Spec:
    """Put title and theme into the specification: a copy of a chart with them would copy all of its layers.

    The theme is all of its `config`: with Altair's own, a chart would not be as wide as its space on the page.
    """
    spec = plain(chart) | ({"title": title} if title else {}) | {"config": configuration(mode)}
    rows = spec.pop("datasets", {})
    return json.dumps(spec), {name: convert_anything_to_arrow_bytes(data) for name, data in rows.items()}


def plain(chart: Any) -> dict[str, Any]:
    """Return the specification including the rows of its data frames. Not validated: that is slow, and tests do it."""
    rows: dict[str, list[Any]] = {}
    spec: dict[str, Any] = _without_rows(chart, rows, {}).to_dict(validate=False)
    return spec | {"datasets": rows} if rows else spec


def _without_rows(chart: Any, rows: dict[str, list[Any]], names: dict[int, str]) -> Any:
    """Return the chart with the names of its rows in place of its data frames: Altair would convert each value again.

    `names`: by the identity of a data frame, which most layers of a chart have in common.
    """
    copy = chart.copy(deep=False)
    if isinstance(data := copy.data, pd.DataFrame):
        if id(data) not in names:
            records = _records(data)
            names[id(data)] = f"data-{hashlib.sha256(json.dumps(records).encode()).hexdigest()[:32]}"
            rows[names[id(data)]] = records
        copy.data = alt.NamedData(name=names[id(data)])
    for part_name in _PARTS:
        if isinstance(parts := getattr(copy, part_name, None), list):
            setattr(copy, part_name, [_without_rows(part, rows, names) for part in parts])
    return copy


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as Altair's `sanitize_pandas_dataframe` does, with None for unknown values, as JSON has no NaN.
    Columns of numbers and texts, the usual ones, skip it: it takes half a millisecond for each.
    """
    values = {name: _plain_values(rows[name]) for name in rows.columns}
    if others := [name for name, column in values.items() if column is None]:
        sanitized = sanitize_pandas_dataframe(rows[others])
        values |= {
            name: sanitized[name].astype(object).where(sanitized[name].notna(), None).tolist() for name in others
        }
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _plain_values(column: pd.Series) -> list[Any] | None:
    """Return the values of a column of numbers or texts; None for any other column."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu":
        return column.tolist()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        return [value if math.isfinite(value) else None for value in column.tolist()]
    if isinstance(column.dtype, pd.StringDtype):
        return [value if isinstance(value, str) else None for value in column.tolist()]
    return None
