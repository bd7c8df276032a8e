"""Figures of the Explore page whose marks are runs, or means of runs."""

from __future__ import annotations

from dataclasses import replace

import altair as alt
import pandas as pd

from lab.advice import frontier
from webapp.charts.explore import runs as explore_runs
from webapp.charts.explore.axes import COST, PER_GPU, PER_USER, Axis
from webapp.charts.explore.runs import Scene
from webapp.charts.explore.series import Order, styles, with_series
from webapp.charts.panels import Figure, Panel
from webapp.charts.theme import Mode
from webapp.pages.explore.parts import Shown, cut, height, mixed, parts, within
from webapp.pages.explore.selection import Asked
from webapp.shared.text import count

#: Instead of throughput per GPU where a run does not tell how many there were.
PER_ENGINE = Axis("Throughput per engine", "output_tok_per_s", "number", "tok/s")
_DRAWN = {
    "Line": explore_runs.line,
    "Bar": explore_runs.bar,
    "Scatter": explore_runs.scatter,
}


def of_runs(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    x, y, said = _axes(view, runs)
    rows = with_series(explore_runs.numbers(runs, x, y), view.colour)
    if lost := len(runs) - len(rows):
        said.append(f"{count(lost, 'run')} without {_missing(runs, x, y)} cannot be drawn.")
    if len(set(_currencies(rows))) > 1:
        rows = rows.iloc[:0]
        said.append("Prices in several currencies are not compared: choose hardware that is priced in one.")
    if rows.empty:
        return Shown(None, runs, None, tuple(said))
    rows, left_out = cut(rows, view)
    if view.mark == "Pareto":
        rows = rows.assign(best=_best(rows, view))
    figure = _figure(view, rows, (x, y), order, mode)
    means = mixed(rows, view) if view.mark in ("Line", "Bar") else []
    return Shown(figure, runs, None, (*said, *left_out, *means))


def _figure(view: Asked, rows: pd.DataFrame, axes: tuple[Axis, Axis], order: Order, mode: Mode) -> Figure:
    x, y = axes
    looks = styles(rows, view.colour, order, mode)
    scene = Scene(
        x,
        y,
        looks,
        mode,
        height(rows, view.facet),
        explore_runs.order_of(rows, x),
        explore_runs.span(rows["x"], from_zero=False) if x.kind == "number" else None,
        explore_runs.span(rows["y"], from_zero=view.mark in ("Line", "Bar")),
    )
    panels: tuple[Panel, ...] = tuple((title, _chart(view, part, scene)) for title, part in parts(rows, view.facet))
    title = f"{y.label} {'against' if view.mark == 'Pareto' else 'by'} {within(x.label)}"
    return Figure("explore", title, _note(view, rows, y), looks, panels, rows.drop(columns=["x", "y"]))


def _chart(view: Asked, rows: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    if view.mark == "Pareto":
        return explore_runs.frontier(rows, scene, higher=view.frontier.higher)
    return _DRAWN[view.mark](rows, scene)


def _axes(view: Asked, runs: pd.DataFrame) -> tuple[Axis, Axis, list[str]]:
    """Costs in the currency of their prices. Of a frontier per GPU all runs must be per GPU, or none."""
    x, y = (view.frontier.x, view.frontier.y) if view.mark == "Pareto" else (view.x, view.metric)
    found = set(_currencies(runs))
    if len(found) == 1:
        (unit,) = found
        x, y = (replace(axis, unit=unit) if axis == COST else axis for axis in (x, y))
    if view.mark == "Pareto" and y == PER_GPU and _lacks_gpus(runs):
        return x, PER_ENGINE, ["The number of GPUs is unknown for some runs: throughput is that of a whole engine."]
    return x, y, []


def _lacks_gpus(runs: pd.DataFrame) -> bool:
    """Of those that have both numbers of a whole engine."""
    there = runs[PER_USER.column].notna() & runs[PER_ENGINE.column].notna()
    return bool(runs.loc[there, "gpus"].isna().any())


def _currencies(rows: pd.DataFrame) -> list[str]:
    return rows["currency"].dropna().tolist() if "currency" in rows else []


def _missing(runs: pd.DataFrame, x: Axis, y: Axis) -> str:
    lacking = dict.fromkeys(within(axis.label) for axis in (y, x) if runs[axis.column].isna().any())
    return " or ".join(lacking)


def _best(rows: pd.DataFrame, view: Asked) -> pd.Series:
    """Within each panel, whether no other run is better in both numbers."""
    pair = view.frontier
    found = [
        pd.Series(
            frontier.best(
                part["x"].to_numpy(float), part["y"].to_numpy(float), higher_x=pair.higher, higher_y=pair.higher
            ),
            index=part.index,
        )
        for _, part in parts(rows, view.facet)
    ]
    together: pd.Series = pd.concat(found)
    return together


def _note(view: Asked, rows: pd.DataFrame, y: Axis) -> str:
    if view.mark == "Pareto":
        return "each point is a run; dashed through those that no other run beats in both"
    few = len(rows) <= explore_runs.MOST_POINTS
    told = {
        "Scatter": "each point is a run",
        "Bar": "bars: means of the runs, whiskers: lowest and highest run",
        "Line": "points: runs, line: their means"
        if few
        else "line: means of the runs, whiskers: lowest and highest run",
    }[view.mark]
    return f"{y.unit}; {told}" if y.unit else told
