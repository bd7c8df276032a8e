"""The figure of the Explore page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from webapp.charts.explore.series import Order
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.explore import data, pooled_figures, run_figures
from webapp.pages.explore.parts import Shown
from webapp.pages.explore.selection import asked
from webapp.shared.published_data import cached_figures

#: Of every run, for the table below any chart.
ALWAYS = ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms", "acceptance_length")


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Raises KeyError for what names nothing, ValueError for a day that is none, UserError without a warehouse."""
    figure = shown(parameters, mode).figure
    return [] if figure is None else [figure]


@cached_figures
def shown(parameters: Mapping[str, Sequence[str]], mode: Mode) -> Shown:
    """With all that the page says beside the figure; raises like `drawn`."""
    view = asked(parameters)
    runs = data.runs(view.filters, tuple(dict.fromkeys([*view.numbers, *ALWAYS])))
    if runs.empty:
        return Shown(None, runs, None, ())
    draw = {"ECDF": pooled_figures.spread, "Percentile bands": pooled_figures.bands}
    return draw.get(view.mark, run_figures.of_runs)(view, runs, _order(runs), mode)


def _order(runs: pd.DataFrame) -> Order:
    """By the newest study that was measured here; by the newest at all where none was."""
    measured = runs[runs["origin"] == "measured"]
    newest = (runs if measured.empty else measured)["job_id"].iloc[-1]
    return data.order(newest)
