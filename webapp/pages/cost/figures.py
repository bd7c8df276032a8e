"""The figures of the Cost page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import altair as alt
import pandas as pd

from webapp.charts import cost
from webapp.charts import panels as figures
from webapp.charts.axes import Setting, arms_drawn, facets, load_axis
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode
from webapp.pages.cost import data as cost_data
from webapp.pages.cost import selection, tables
from webapp.pages.cost.selection import Choice
from webapp.shared import published_data


def drawn(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """The chosen cost, one figure a currency, then the saving: each only where there is something to draw.

    Raises KeyError where the parameters name nothing there is, UserError where nobody knows the price.
    """
    choice = selection.of(parameters)
    costs = cost_data.costs(choice.job_id, choice.price, choice.utilisation)
    frame = tables.rows(costs, choice.least_share)
    if frame.empty:
        return []
    styles = figures.styles_of(frame, mode, published_data.arms(choice.job_id))
    made = [_cost(frame, choice, styles, mode, currency) for currency in tables.currencies(costs)]
    return [figure for figure in (*made, _saving(frame, styles, mode)) if figure is not None]


def _cost(frame: pd.DataFrame, choice: Choice, styles: Sequence[ArmStyle], mode: Mode, currency: str) -> Figure | None:
    rows = frame[frame["currency"] == currency].assign(cost=frame[choice.measure.field].astype(float))
    rows = rows[rows["cost"].notna()]
    if rows.empty:
        return None
    title, domain = choice.measure.title(currency), cost.domain(rows)
    hollow = f"; hollow: fewer than {choice.least_share:.0%} of requests keep the SLO"
    return _figure(
        (f"cost-{currency}", f"{title} by load", "logarithmic" + (hollow if (rows["kept"] == "no").any() else "")),
        rows,
        Setting(load_axis(rows), _drawn(rows, styles), mode),
        lambda part, setting: cost.panel(part, title, setting, domain),
    )


def _saving(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    rows = frame[~frame["is_baseline"] & frame["saving"].notna()]
    if rows.empty:
        return None
    domain, known = cost.saving_domain(rows), rows["saving_low"].notna().any()
    note = "share of its cost; whiskers: 95 % interval" if known else "share of its cost; one repeat: no interval"
    return _figure(
        ("saving", "Saving against the baseline by load", note),
        rows,
        Setting(load_axis(rows), _drawn(rows, styles), mode),
        lambda part, setting: cost.saving_panel(part, setting, domain),
    )


def _figure(
    named: tuple[str, str, str],
    rows: pd.DataFrame,
    setting: Setting,
    draw: Callable[[pd.DataFrame, Setting], alt.LayerChart],
) -> Figure:
    """`named`: key, title and note."""
    panels = tuple((title, draw(part, setting)) for title, part in facets(rows))
    return Figure(*named, setting.styles, panels, rows)


def _drawn(rows: pd.DataFrame, styles: Sequence[ArmStyle]) -> tuple[ArmStyle, ...]:
    there = arms_drawn(rows, [style.arm for style in styles])
    return tuple(style for style in styles if style.arm in there)
