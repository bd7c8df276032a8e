"""Figures of the Explore page that pool the single requests of many runs: ECDF and percentile bands."""

from __future__ import annotations

import pandas as pd

from webapp.charts.explore import pooled as explore_pooled
from webapp.charts.explore import runs as explore_runs
from webapp.charts.explore.runs import Scene
from webapp.charts.explore.series import Order, styles, with_series
from webapp.charts.panels import Figure, Panel
from webapp.charts.theme import ArmStyle, Mode
from webapp.pages.explore import data
from webapp.pages.explore.parts import MOST_PANELS, PANEL_HEIGHT, Shown, cut, height, parts, within
from webapp.pages.explore.selection import Asked
from webapp.shared.text import count

_ECDF_NOTE = "share of all requests of a group's runs together, exact to 0.5 %; dashed: p50 and p95"
_BANDS_NOTE = "ms; line: p50, bands: up to p90, p95 and p99 of all requests of the runs together"


def spread(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    """How the latencies of all requests of a group are spread."""
    pooled, groups, said = _pooled(view, runs, ())
    if pooled.empty:
        return Shown(None, runs, None, tuple(said))
    looks = styles(pooled, view.colour, order, mode)
    found = [(title, explore_pooled.shares(part)) for title, part in parts(pooled, view.facet)]
    every = pd.concat([part["ms"] for _, part in found])
    domain = (float(every.min()), float(every.max()))
    scene = Scene(view.latency, view.latency, looks, mode, height(pooled, view.facet), x_domain=domain)
    panels: tuple[Panel, ...] = tuple((title, explore_pooled.ecdf(part, scene)) for title, part in found)
    figure = Figure("explore", f"{view.latency.label} of single requests", _ECDF_NOTE, looks, panels, groups)
    return Shown(figure, runs, groups, tuple(said))


def bands(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    pooled, groups, said = _pooled(view, runs, (view.x.column,))
    if pooled.empty:
        return Shown(None, runs, None, tuple(said))
    looks = styles(pooled, view.colour, order, mode)
    rows = groups.assign(x=groups[view.x.column])
    top = explore_runs.span(rows["p99"], from_zero=True)
    scene = Scene(view.x, view.latency, looks, mode, PANEL_HEIGHT, explore_runs.order_of(rows, view.x), y_domain=top)
    panels = [panel for style in looks for panel in _of_style(rows, style, view, scene)]
    if len(panels) > MOST_PANELS:
        said.append(f"Drawn are the first {MOST_PANELS} panels of {len(panels)}.")
    title = f"{view.latency.label} by {within(view.x.label)}"
    figure = Figure("explore", title, _BANDS_NOTE, looks, tuple(panels[:MOST_PANELS]), groups)
    return Shown(figure, runs, groups, tuple(said))


def _of_style(rows: pd.DataFrame, style: ArmStyle, view: Asked, scene: Scene) -> list[Panel]:
    """A panel of its own for each colour, because bands over bands cannot be read."""
    return [
        (f"{style.arm} · {title}" if title else style.arm, explore_pooled.bands(own, style, scene))
        for title, part in parts(rows, view.facet)
        if len(own := part[part["series"] == style.arm])
    ]


def _pooled(view: Asked, runs: pd.DataFrame, more: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Counts by bucket with `series`; percentiles of each group; what is said."""
    facet = () if view.facet is None else (view.facet.column,)
    by = tuple(dict.fromkeys([view.colour.column, "origin", *facet, *more]))
    counts, of_runs = data.pooled(view.filters, view.latency.column, by)
    said = []
    if lost := len(runs) - int(of_runs["runs"].sum()):
        said.append(f"{count(lost, 'run')} whose single requests do not tell this latency cannot be drawn.")
    if counts.empty:
        return counts, counts, said
    counts, left_out = cut(with_series(counts, view.colour), view)
    groups = explore_pooled.percentiles(counts, list(dict.fromkeys(["series", *by]))).merge(of_runs, on=list(by))
    return counts, groups, [*said, *left_out]
