"""The figures of the Cost page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lab.metrics.number_format import percentage
from webapp.charts import cost, panels
from webapp.charts.axes import Setting, facets, load_axis
from webapp.charts.panels import Figure, panels_of
from webapp.charts.theme import ArmStyle, Mode, styles_drawn
from webapp.pages.cost import data as cost_data
from webapp.pages.cost import tables
from webapp.pages.cost.selection import MEASURES, Selection, parse
from webapp.shared import published_data


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the chosen cost, one figure per currency, then the saving; figures without rows are left out.

    Raises KeyError for parameters that name something unknown, UserError if a price is missing.
    """
    return draw(parse(parameters), mode)


def draw(selection: Selection, mode: Mode) -> list[Figure]:
    """Raise UserError if a price is missing."""
    costs = cost_data.costs(selection.job_id, selection.price, selection.utilisation)
    frame = tables.rows(costs, selection.least_share)
    if frame.empty:
        return []
    styles = panels.styles_of(frame, mode, published_data.arms(selection.job_id))
    by_currency = [_cost(frame, selection, styles, mode, currency) for currency in tables.currencies(costs)]
    return [figure for figure in (*by_currency, _saving(frame, styles, mode)) if figure is not None]


def _cost(
    frame: pd.DataFrame, selection: Selection, styles: Sequence[ArmStyle], mode: Mode, currency: str
) -> Figure | None:
    rows = frame[frame["currency"] == currency].assign(cost=frame[MEASURES[selection.measure]].astype(float))
    rows = rows[rows["cost"].notna()]
    if rows.empty:
        return None
    title = f"Cost {selection.measure[0].lower()}{selection.measure[1:]} ({currency})"
    domain = cost.domain(rows)
    hollow = f"; hollow: fewer than {percentage(selection.least_share)} of requests meet the SLO"
    note = "logarithmic" + (hollow if (rows["meets_slo"] == "no").any() else "")
    setting = Setting(load_axis(rows), styles_drawn(rows, styles), mode)
    panels = panels_of(facets(rows), lambda part: cost.panel(part, title, setting, domain))
    return Figure(f"cost-{currency}", f"{title} by load", note, setting.styles, panels, rows)


def _saving(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    rows = frame[~frame["is_baseline"] & frame["saving"].notna()]
    if rows.empty:
        return None
    domain = cost.saving_domain(rows)
    bars = "one repeat: no interval" if rows["saving_low"].isna().all() else "intervals too wide to draw"
    bars = "bars: 95 % intervals" if cost.without_wide_savings(rows)["saving_low"].notna().any() else bars
    hollow = "; hollow: inconclusive" if (rows["verdict"] == "inconclusive").any() else ""
    note = f"share of its cost; {bars}{hollow}"
    setting = Setting(load_axis(rows), styles_drawn(rows, styles), mode)
    panels = panels_of(facets(rows), lambda part: cost.saving_panel(part, setting, domain))
    return Figure("saving", "Saving against the baseline by load", note, setting.styles, panels, rows)
