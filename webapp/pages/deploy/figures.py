"""The figures of the Deploy page, drawn from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.deploy import advice_figures, tuning_figures
from webapp.shared import published_data, url_params


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the speed-ups of a tuning, or predicted against measured values of any other study.

    Raises KeyError for parameters that name no study, UserError if it cannot be compared.
    """
    job = published_data.job(url_params.job_id_of(parameters[url_params.JOB.key][0]))
    if job is None or job.study.tune is None:
        return advice_figures.figures(parameters, mode)
    return tuning_figures.figures(parameters, mode)
