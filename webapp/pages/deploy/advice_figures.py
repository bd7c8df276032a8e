"""The figure of a study's advice, drawn from its link's parameters alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from webapp.charts import panels
from webapp.charts.deploy import predicted_panel
from webapp.charts.panels import Figure, Panel
from webapp.charts.theme import Mode, styles_drawn
from webapp.pages.deploy import advice_tables as tables
from webapp.pages.deploy.advice_data import study_advice
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_by_publication
from webapp.shared.text import count

#: Columns with the predicted and the measured value, and the panel's axis title.
_PANELS = (
    ("predicted_speedup", "speedup", "Speed-up (×)"),
    ("predicted_length", "length", "Tokens per round"),
)


def draft_cost(parameters: Mapping[str, Sequence[str]]) -> float | None:
    """Return the link's draft cost, or None if it has none. Raises UserError for an invalid one."""
    text, what = url_params.first(parameters, url_params.DRAFT_COST), "a valid draft cost: enter a number >= 0"
    return url_params.number_in(text, what, lambda cost: 0 <= cost < math.inf)


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw predicted against measured values; no figure without a prediction.

    Raises KeyError for parameters that name no study, UserError if the study cannot be compared.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    figure = _figure(job_id, draft_cost(parameters), mode)
    return [] if figure is None else [figure]


@cached_by_publication()
def _figure(job_id: str, cost: float | None, mode: Mode) -> Figure | None:
    rows = tables.runs(study_advice(job_id, cost).runs)
    runs = published_data.results(job_id)
    about = pd.DataFrame({"arm": runs["arm"], "is_baseline": runs["is_baseline"].eq(other=True)})
    styles = panels.styles_of(about, mode, published_data.arms(job_id))
    parts = [(title, tables.pairs(rows, *columns)) for *columns, title in _PANELS]
    shown = styles_drawn(pd.concat([part for _, part in parts]), styles)
    charts: tuple[Panel, ...] = tuple(
        (title.split(" (")[0], predicted_panel(part, title, shown, mode)) for title, part in parts if not part.empty
    )
    if not charts:
        return None
    source = "" if cost is None else f", at a draft cost of {cost:g} target steps"
    lacking = int((rows["predicted_speedup"].isna() & rows["speedup"].notna()).sum())
    without = (
        f"; {count(lacking, 'run')} without a predicted speed-up, because the cost of drafting is known from them alone"
    )
    note = f"one mark per run; predicted from the acceptance of the first position{source}{without if lacking else ''}"
    return Figure("predicted", "Predicted against measured", note, shown, charts, rows)
