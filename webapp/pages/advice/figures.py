"""The figure of the Advice page, from its link's parameters alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from lab.errors import UserError
from webapp.charts import panels, predicted
from webapp.charts.axes import arms_drawn
from webapp.charts.panels import Figure, Panel
from webapp.charts.theme import Mode
from webapp.pages.advice import data as advice_data
from webapp.pages.advice import rows as advice_rows
from webapp.shared import published_data, url_params

_MOST_KEPT = 64
#: What is predicted: its columns, and what it is called.
_PANELS = (
    ("predicted_speedup", "speedup", "Speed-up (×)"),
    ("predicted_length", "length", "Tokens a round"),
)


def draft_cost(parameters: Mapping[str, Sequence[str]]) -> float | None:
    """None where the link says none. Raises UserError for what is no cost."""
    text = (*parameters.get(url_params.DRAFT_COST, ()), "")[0]
    if not text:
        return None
    try:
        cost = float(text)
    except ValueError:
        cost = -1.0
    if not (math.isfinite(cost) and cost >= 0):
        raise UserError(f"a draft cost of {text!r} is none: it is the time of a draft step over a target step")
    return cost


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Predicted against measured, where there is something to draw.

    Raises KeyError where the parameters name no study; UserError without a comparison.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    made = _figure(published_data.publication(), job_id, draft_cost(parameters), mode)
    return [] if made is None else [made]


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _figure(publication: published_data.Publication, job_id: str, cost: float | None, mode: Mode) -> Figure | None:
    del publication
    rows = advice_rows.runs(advice_data.found(job_id, cost).runs)
    runs = published_data.results(job_id)
    about = pd.DataFrame({"arm": runs["arm"], "is_baseline": runs["is_baseline"].eq(other=True)})
    styles = panels.styles_of(about, mode, published_data.arms(job_id))
    parts = [(title, advice_rows.against(rows, *columns)) for *columns, title in _PANELS]
    there = arms_drawn(pd.concat([part for _, part in parts]), [style.arm for style in styles])
    shown = tuple(style for style in styles if style.arm in there)
    drawn: tuple[Panel, ...] = tuple(
        (title.split(" (")[0], predicted.panel(part, title, shown, mode)) for title, part in parts if not part.empty
    )
    if not drawn:
        return None
    note = "a mark a run; from the acceptance of the first position" + (
        "" if cost is None else f", at a draft's cost of {cost:g} target steps"
    )
    return Figure("predicted", "Predicted against measured", note, shown, drawn, rows)
