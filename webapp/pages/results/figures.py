"""The figures of the Results page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lab.metrics.definition import Metric
from webapp.charts import panels
from webapp.charts.panels import Figure
from webapp.charts.results import BY_LABEL, MEASURES
from webapp.charts.theme import Mode
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_figures

ALL_CATEGORIES = "all"


@cached_figures
def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Speed-up, the metric itself, and acceptance; figures without rows are left out.

    Raises KeyError without a study or for an unknown metric, UserError without a warehouse.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    category = parameters.get(url_params.CATEGORY.key, [ALL_CATEGORIES])[0]
    measure = BY_LABEL[parameters.get(url_params.METRIC.key, [MEASURES[0].label])[0]]
    speedups = of_category(published_data.cells(job_id, measure.name), category)
    return _drawn(
        speedups, of_category(published_data.acceptance(job_id), category), measure, mode, published_data.arms(job_id)
    )


def _drawn(
    speedups: pd.DataFrame, acceptance: pd.DataFrame, measure: Metric, mode: Mode, arms: Sequence[str]
) -> list[Figure]:
    styles = panels.styles_of(speedups, mode, arms)
    figures: list[Figure] = []
    if (~speedups["is_baseline"] & speedups["ratio"].notna()).any():
        figures.append(panels.speedup_figure(speedups, measure, styles, mode))
    if speedups["value"].notna().any():
        figures.append(panels.throughput_figure(speedups, measure, styles, mode))
    if not acceptance.empty:
        figures.append(panels.acceptance_figure(acceptance, styles))
    return figures


def of_category(frame: pd.DataFrame, category: str) -> pd.DataFrame:
    return frame if category == ALL_CATEGORIES else frame[frame["category"] == category]
