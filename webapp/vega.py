"""A chart as Vega-Lite. Pure."""

from __future__ import annotations

from typing import Any

import altair as alt
from streamlit.elements.vega_charts import _altair_globals_lock


def vega_lite(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The chart with all its rows under `datasets`.

    How Altair writes rows is a setting of all threads, which Streamlit changes while it draws: the lock is its own.
    """
    with _altair_globals_lock, alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = chart.to_dict()
    return spec
