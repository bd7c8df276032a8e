"""Specifications are made past Altair's slow way with rows, and kept: what they say is the same."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.utils import sanitize_pandas_dataframe

from webapp.charts import vega_spec

ROWS = pd.DataFrame({"x": [1, 2], "y": [0.5, None], "at": pd.to_datetime(["2026-11-21", "2026-11-22"])})


def test_a_specification_has_the_rows_and_the_rest_that_altair_writes() -> None:
    line = alt.Chart(ROWS).mark_line().encode(x="x:Q", y="y:Q")
    mean = alt.Chart(ROWS[["x"]]).mark_rule().encode(x="mean(x):Q")
    spec = vega_spec.plain(line + mean)
    rows = [sanitize_pandas_dataframe(each).to_dict(orient="records") for each in (ROWS, ROWS[["x"]])]
    assert [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]] == rows
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "rule"]
    alt.Chart.from_dict(spec, validate=True)
