"""The figures of the Results page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lab.metrics.catalogue import BY_NAME
from webapp.charts import panels
from webapp.charts.panels import Figure
from webapp.charts.results import BY_LABEL, MEASURES
from webapp.charts.theme import Mode
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_by_publication
from webapp.shared.verdicts import standing

ALL_CATEGORIES = "all"
_MAX_FIGURES = 128


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the figures of a link.

    Raises KeyError without a study or for an unknown metric, UserError without a warehouse.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    category = url_params.first(parameters, url_params.CATEGORY, ALL_CATEGORIES)
    measure = BY_LABEL[url_params.first(parameters, url_params.METRIC, MEASURES[0].label)]
    return draw(job_id, category, measure.name, standing.of_link(job_id, parameters), mode)


@cached_by_publication(_MAX_FIGURES)
def draw(job_id: str, category: str, metric: str, judgement: str, mode: Mode) -> list[Figure]:
    """Draw speed-up, the metric itself, and acceptance; figures without rows are left out."""
    measure, speedups = BY_NAME[metric], of_category(published_data.cells(job_id, metric, judgement), category)
    acceptance = of_category(published_data.acceptance(job_id), category)
    styles = panels.styles_of(speedups, mode, published_data.arms(job_id))
    drawn: list[Figure] = []
    if (~speedups["is_baseline"] & speedups["ratio"].notna()).any():
        drawn.append(panels.speedup_figure(speedups, measure, styles, mode))
    if speedups["value"].notna().any():
        drawn.append(panels.throughput_figure(speedups, measure, styles, mode))
    if not acceptance.empty:
        drawn.append(panels.acceptance_figure(acceptance, styles))
    return drawn


def of_category(frame: pd.DataFrame, category: str) -> pd.DataFrame:
    return frame if category == ALL_CATEGORIES else frame[frame["category"] == category]
