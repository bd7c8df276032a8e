"""Charts as Vega-Lite specifications, made once a figure: that takes tens of milliseconds a chart.

Altair's way with data frames is a setting of the whole process, which Streamlit changes while it draws for another
visitor. So the rows are put into the specification here, and neither hears of the other. Pure.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakKeyDictionary

import altair as alt
import pandas as pd
from altair.utils import sanitize_pandas_dataframe

from webapp.charts.figures import Figure
from webapp.charts.theme import Mode, themed

_MADE: WeakKeyDictionary[Figure, dict[Mode, list[dict[str, Any]]]] = WeakKeyDictionary()
#: Of a chart, what may hold charts.
_PARTS = ("layer", "concat", "hconcat", "vconcat")


def of_panels(figure: Figure, mode: Mode) -> list[dict[str, Any]]:
    """Each panel in the look of a mode; the caller's own to change. A figure that is kept keeps them."""
    made = _MADE.setdefault(figure, {})
    if mode not in made:
        made[mode] = [_spec(chart, title, mode) for title, chart in figure.panels]
    return copy.deepcopy(made[mode])


def _spec(chart: Any, title: str, mode: Mode) -> dict[str, Any]:
    """Not validated: that takes as long again, and tests do it."""
    titled = chart.properties(title=title) if title else chart
    spec: dict[str, Any] = inlined(themed(titled, mode)).to_dict(validate=False)
    for default in ("continuousWidth", "continuousHeight"):
        spec["config"]["view"].pop(default, None)  # a page's chart is as wide as its place
    return spec


def inlined(chart: Any) -> Any:
    """The chart with the rows of its data frames in it."""
    made = chart.copy(deep=False)
    if isinstance(made.data, pd.DataFrame):
        rows: list[Any] = sanitize_pandas_dataframe(made.data).to_dict(orient="records")
        made.data = alt.InlineData(values=rows)
    for name in _PARTS:
        if isinstance(parts := getattr(made, name, None), list):
            setattr(made, name, [inlined(part) for part in parts])
    return made
