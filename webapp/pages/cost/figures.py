"""The figures of the Cost page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import altair as alt
import pandas as pd

from webapp.charts import cost, panels
from webapp.charts.axes import Setting, arms_drawn, facets, load_axis
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode
from webapp.pages.cost import data as cost_data
from webapp.pages.cost import selection, tables
from webapp.pages.cost.selection import Choice
from webapp.shared import published_data


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """The chosen cost, one figure per currency, then the saving; figures without rows are left out.

    Raises KeyError for parameters that name something unknown, UserError if a price is missing.
    """
    choice = selection.of(parameters)
    costs = cost_data.costs(choice.job_id, choice.price, choice.utilisation)
    frame = tables.rows(costs, choice.least_share)
    if frame.empty:
        return []
    styles = panels.styles_of(frame, mode, published_data.arms(choice.job_id))
    by_currency = [_cost(frame, choice, styles, mode, currency) for currency in tables.currencies(costs)]
    return [figure for figure in (*by_currency, _saving(frame, styles, mode)) if figure is not None]


def _cost(frame: pd.DataFrame, choice: Choice, styles: Sequence[ArmStyle], mode: Mode, currency: str) -> Figure | None:
    rows = frame[frame["currency"] == currency].assign(cost=frame[choice.measure.field].astype(float))
    rows = rows[rows["cost"].notna()]
    if rows.empty:
        return None
    title, domain = choice.measure.title(currency), cost.domain(rows)
    hollow = f"; hollow: fewer than {choice.least_share:.0%} of requests meet the SLO"
    return _figure(
        (f"cost-{currency}", f"{title} by load", "logarithmic" + (hollow if (rows["meets_slo"] == "no").any() else "")),
        rows,
        Setting(load_axis(rows), _drawn(rows, styles), mode),
        lambda part, setting: cost.panel(part, title, setting, domain),
    )


def _saving(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    rows = frame[~frame["is_baseline"] & frame["saving"].notna()]
    if rows.empty:
        return None
    domain, has_intervals = cost.saving_domain(rows), rows["saving_low"].notna().any()
    note = f"share of its cost; {'whiskers: 95 % interval' if has_intervals else 'one repeat: no interval'}"
    return _figure(
        ("saving", "Saving against the baseline by load", note),
        rows,
        Setting(load_axis(rows), _drawn(rows, styles), mode),
        lambda part, setting: cost.saving_panel(part, setting, domain),
    )


def _figure(
    titles: tuple[str, str, str],
    rows: pd.DataFrame,
    setting: Setting,
    draw: Callable[[pd.DataFrame, Setting], alt.LayerChart],
) -> Figure:
    """`titles`: key, title and note."""
    charts = tuple((title, draw(part, setting)) for title, part in facets(rows))
    return Figure(*titles, setting.styles, charts, rows)


def _drawn(rows: pd.DataFrame, styles: Sequence[ArmStyle]) -> tuple[ArmStyle, ...]:
    arms = arms_drawn(rows, [style.arm for style in styles])
    return tuple(style for style in styles if style.arm in arms)
