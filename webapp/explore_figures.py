"""The figure of the Explore page, from its link's parameters alone, and the rows of the table below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from lab import frontier
from webapp import explore_data
from webapp.charts import explore_pooled, explore_runs
from webapp.charts.explore_axes import COST, PER_GPU, Axis, natural
from webapp.charts.explore_runs import MOST_MARKS, Scene
from webapp.charts.explore_series import Order, styles, with_series
from webapp.charts.figures import Figure, Panel
from webapp.charts.theme import ArmStyle, Mode
from webapp.explore_slice import Asked, asked
from webapp.text import count

#: Of every run, for the table below any chart.
ALWAYS = ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms", "acceptance_length")
_MOST_PANELS, _MOST_SERIES = 12, 24
_HEIGHT, _PANEL_HEIGHT = 400, 280
#: Properties in which the runs of one mean may differ without being told apart.
_TOLD = ("dataset", "category", "load", "k", "draft_model", "arm", "engine", "hardware", "target")
PER_ENGINE = Axis("Output throughput per engine", "output_tok_per_s", "number", "tok/s, number of GPUs unknown")


@dataclass(frozen=True, eq=False)
class Shown:
    """What a view shows: a figure, None where nothing can be drawn; every run of the slice; what must be said of it.

    `rows` has the figure's own rows where these are groups rather than runs.
    """

    figure: Figure | None
    runs: pd.DataFrame
    groups: pd.DataFrame | None
    said: tuple[str, ...]


def drawn(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Raises KeyError for what names nothing, ValueError for a day that is none, UserError without a warehouse."""
    figure = shown(asked(parameters), mode).figure
    return [] if figure is None else [figure]


def shown(view: Asked, mode: Mode) -> Shown:
    runs = explore_data.runs(view.filters, tuple(dict.fromkeys([*view.numbers, *ALWAYS])))
    order = _order(runs)
    if runs.empty:
        return Shown(None, runs, None, ())
    if view.mark == "ECDF":
        return _spread(view, runs, order, mode)
    if view.mark == "Percentile bands":
        return _bands(view, runs, order, mode)
    return _of_runs(view, runs, order, mode)


def _order(runs: pd.DataFrame) -> Order:
    """By the newest study that was measured here; by what there is where none was."""
    measured = runs[runs["origin"] == "measured"]
    newest = (runs if measured.empty else measured)["job_id"].iloc[-1:]
    return Order() if newest.empty else explore_data.order(newest.iloc[0])


def _of_runs(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    x, y, said = _axes(view, runs)
    rows = with_series(explore_runs.numbers(runs, x, y), view.colour)
    if lost := len(runs) - len(rows):
        said.append(f"{count(lost, 'run')} without {_missing(runs, x, y)} cannot be drawn.")
    if COST in (x, y) and len(set(rows["currency"].dropna())) > 1:
        return Shown(None, runs, None, (*said, "Prices in several currencies are not compared: narrow the hardware."))
    if rows.empty:
        return Shown(None, runs, None, tuple(said))
    rows, cut = _cut(rows, view)
    if view.mark == "Pareto":
        rows = rows.assign(best=_best(rows, view))
    looks = styles(rows, view.colour, order, mode)
    scene = _scene(rows, view, x, y, looks, mode)
    draw = {"Line": explore_runs.line, "Bar": explore_runs.bar, "Pareto": explore_runs.frontier}
    panels = _panels(rows, view, lambda part: draw.get(view.mark, explore_runs.scatter)(part, scene))
    figure = Figure("explore", _title(view, x, y), _note(view, rows, y), looks, panels, rows.drop(columns=["x", "y"]))
    return Shown(figure, runs, None, (*said, *cut, *_mixed(rows, view)))


def _axes(view: Asked, runs: pd.DataFrame) -> tuple[Axis, Axis, list[str]]:
    """Of a frontier per GPU both numbers of all runs must be per GPU, or none."""
    if view.mark != "Pareto":
        return view.x, view.metric, []
    x, y = view.frontier.x, view.frontier.y
    unit = next(iter(runs["currency"].dropna()), None) if "currency" in runs else None
    x = replace(x, unit=unit) if x == COST and unit else x
    if y == PER_GPU and runs["gpus"].isna().any():
        said = "The number of GPUs is unknown for some runs, so throughput is that of a whole engine."
        return x, PER_ENGINE, [said]
    return x, y, []


def _missing(runs: pd.DataFrame, x: Axis, y: Axis) -> str:
    return " or ".join(axis.label.lower() for axis in (y, x) if runs[axis.column].isna().any())


def _best(rows: pd.DataFrame, view: Asked) -> pd.Series:
    """Within each panel."""
    found = pd.Series(data=False, index=rows.index)
    for _, part in _parts(rows, view.facet):
        on = frontier.best(
            part["x"].to_numpy(float),
            part["y"].to_numpy(float),
            higher_x=view.frontier.higher_x,
            higher_y=view.frontier.higher_y,
        )
        found[part.index] = on
    return found


def _scene(rows: pd.DataFrame, view: Asked, x: Axis, y: Axis, looks: tuple[ArmStyle, ...], mode: Mode) -> Scene:
    alone = view.facet is None or rows[view.facet.column].nunique() == 1
    from_zero = view.mark in ("Line", "Bar")
    return Scene(
        x,
        y,
        looks,
        mode,
        _HEIGHT if alone else _PANEL_HEIGHT,
        tuple(sorted(rows[x.column].unique(), key=natural)) if x.kind == "ordinal" else (),
        explore_runs.span(rows["x"], from_zero=False) if x.kind == "number" else None,
        explore_runs.span(rows["y"], from_zero=from_zero),
    )


def _cut(rows: pd.DataFrame, view: Asked) -> tuple[pd.DataFrame, list[str]]:
    """No more panels, series and marks than can be read and drawn; what is left out is said."""
    said = []
    for axis, most, noun in ((view.facet, _MOST_PANELS, "panels"), (view.colour, _MOST_SERIES, "colours")):
        if axis is None:
            continue
        sizes = rows[axis.column].value_counts()
        if len(sizes) > most:
            said.append(f"Drawn are the {most} {noun} with most runs, of {len(sizes)}.")
            rows = rows[rows[axis.column].isin(sizes.index[:most])]
    if view.mark in ("Scatter", "Pareto") and len(rows) > MOST_MARKS:
        said.append(f"Drawn are the newest {MOST_MARKS:,} of {len(rows):,} runs.")
        rows = rows.tail(MOST_MARKS)
    return rows, said


def _mixed(rows: pd.DataFrame, view: Asked) -> list[str]:
    """What a mean mixes that the chart does not tell apart."""
    if view.mark not in ("Line", "Bar"):
        return []
    by = ["x", "series", *([view.facet.column] if view.facet else [])]
    held = {view.x.column, view.colour.column, *([view.facet.column] if view.facet else [])}
    places = len(rows[by].drop_duplicates())
    several = [name for name in _TOLD if name not in held and len(rows[[*by, name]].drop_duplicates()) > places]
    if not several:
        return []
    words = " and ".join(name.replace("_", " ") for name in several)
    return [f"Some means are over runs that differ in {words}: part them by panels, colour or a filter."]


def _title(view: Asked, x: Axis, y: Axis) -> str:
    return view.frontier.label if view.mark == "Pareto" else f"{y.label} by {_within(x.label)}"


def _within(label: str) -> str:
    """A label inside a sentence."""
    return label if label[1:2].isupper() else label[0].lower() + label[1:]


def _note(view: Asked, rows: pd.DataFrame, y: Axis) -> str:
    if view.mark == "Pareto":
        return "dotted: no other run is better in both"
    if view.mark == "Scatter":
        return f"{y.unit}; each point is a run" if y.unit else "each point is a run"
    if view.mark == "Bar":
        return f"{y.unit}; bars: means of the runs, whiskers: lowest and highest run"
    few = len(rows) <= explore_runs.MOST_POINTS
    return f"{y.unit}; " + (
        "points: runs, line: their means" if few else "line: means, whiskers: lowest and highest run"
    )


def _spread(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    """How the latencies of all requests of a group are spread."""
    pooled, groups, said = _pooled(view, runs, ())
    if pooled.empty:
        return Shown(None, runs, None, tuple(said))
    looks = styles(pooled, view.colour, order, mode)
    found = [(title, explore_pooled.shares(part)) for title, part in _parts(pooled, view.facet)]
    every = pd.concat([part["ms"] for _, part in found])
    scene = Scene(view.latency, view.latency, looks, mode, _HEIGHT if len(found) == 1 else _PANEL_HEIGHT)
    scene = replace(scene, x_domain=(float(every.min()), float(every.max()))) if len(found) > 1 else scene
    panels = tuple((_panel_title(view, title, found), explore_pooled.ecdf(part, scene)) for title, part in found)
    note = "share of all requests of a group's runs together; exact to 0.5 %"
    figure = Figure("explore", f"How {_within(view.latency.label)} is spread", note, looks, panels, groups)
    return Shown(figure, runs, groups, tuple(said))


def _bands(view: Asked, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    """A panel for each series, because bands over bands cannot be read."""
    pooled, groups, said = _pooled(view, runs, (view.x.column,))
    if pooled.empty:
        return Shown(None, runs, None, tuple(said))
    looks = styles(pooled, view.colour, order, mode)
    groups = groups.assign(x=groups[view.x.column])
    top = explore_runs.span(groups["p99"], from_zero=True)
    x_order = tuple(sorted(groups["x"].unique(), key=natural))
    scene = Scene(view.x, view.latency, looks, mode, _PANEL_HEIGHT, x_order, None, top)
    panels = []
    for title, part in _parts(groups, view.facet):
        for style in looks:
            rows = part[part["series"] == style.arm]
            if len(rows):
                name = f"{style.arm} · {title}" if view.facet and groups[view.facet.column].nunique() > 1 else style.arm
                panels.append((name, explore_pooled.bands(rows, style, scene)))
    if len(panels) > _MOST_PANELS:
        said.append(f"Drawn are the first {_MOST_PANELS} panels of {len(panels)}.")
    note = "ms; line: p50, bands: up to p90, p95 and p99 of all requests of the runs together"
    title = f"{view.latency.label} by {_within(view.x.label)}"
    figure = Figure("explore", title, note, looks, tuple(panels[:_MOST_PANELS]), groups.drop(columns="x"))
    return Shown(figure, runs, groups.drop(columns="x"), tuple(said))


def _pooled(view: Asked, runs: pd.DataFrame, more: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Counts by bucket with `series`; percentiles of each group; what is said."""
    facet = () if view.facet is None else (view.facet.column,)
    by = tuple(dict.fromkeys([view.colour.column, "origin", *facet, *more]))
    counts, of_runs = explore_data.pooled(view.filters, view.latency.column, by)
    said = []
    if lost := len(runs) - int(of_runs["runs"].sum()):
        said.append(f"{count(lost, 'run')} without single requests, or without this latency, cannot be drawn.")
    if counts.empty:
        return counts, counts, said
    counts, cut = _cut(with_series(counts, view.colour), view)
    keys = list(dict.fromkeys(["series", *by]))
    groups = explore_pooled.percentiles(counts, keys).merge(of_runs, on=list(by))
    return counts, groups, [*said, *cut]


def _panels(rows: pd.DataFrame, view: Asked, draw: Callable[[pd.DataFrame], object]) -> tuple[Panel, ...]:
    found = list(_parts(rows, view.facet))
    return tuple((_panel_title(view, title, found), draw(part)) for title, part in found)  # type: ignore[misc]


def _panel_title(view: Asked, title: str, found: Sequence[object]) -> str:
    if view.facet is None or len(found) == 1:
        return ""
    return f"{view.facet.label}: {title}" if view.facet.unit else title


def _parts(rows: pd.DataFrame, facet: Axis | None) -> Iterator[tuple[str, pd.DataFrame]]:
    if facet is None:
        yield "", rows
        return
    for value in sorted(rows[facet.column].unique(), key=natural):
        yield value, rows[rows[facet.column] == value]
