"""The figure of the Explore page, from the parameters of its link alone: runs as marks, or single requests pooled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import altair as alt
import pandas as pd

from lab.metrics.number_format import times
from lab.study.methods import spoken_name
from webapp.charts import results
from webapp.charts.explore import runs as explore_runs
from webapp.charts.explore.axes import COST, PER_GPU, PER_USER, SPEEDUP, Axis, Order, natural, styles, with_series
from webapp.charts.explore.runs import MOST_MARKS, Scene
from webapp.charts.panels import Figure, Panel, panels_of
from webapp.charts.theme import ArmStyle, Mode
from webapp.pages.explore import data
from webapp.pages.explore.data import Judged
from webapp.pages.explore.selection import Selection, parse
from webapp.shared.published_data import cached_by_publication
from webapp.shared.text import count

#: Numbers of every run in the table below any chart.
ALWAYS = ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms", "acceptance_length")
#: Replaces throughput per GPU where a run does not record the number of GPUs.
PER_ENGINE = Axis("Throughput per engine", "output_tok_per_s", "number", "tok/s")
MAX_PANELS, MAX_SERIES = 12, 24
HEIGHT, PANEL_HEIGHT = 400, 280
_CHARTS: Mapping[str, Callable[[pd.DataFrame, Scene], alt.LayerChart]] = {
    "Line": explore_runs.line,
    "Bar": explore_runs.bar,
    "Scatter": explore_runs.scatter,
}
#: The metric of verdicts where the drawn one has no better direction.
_COMPARED = "output_tok_per_s"
_ON_OUTPUT = " in output"
_MOST_JUDGED = 8
NO_PRICE = "No hourly price for"
_MAX_FIGURES = 128
#: Properties in which the runs behind one mean may differ without the chart showing it.
_MIXABLE = (
    *("dataset", "category", "load", "k", "draft_model", "arm", "engine", "hardware", "target", "turn", "context"),
)
_CUT = ", some longer than the chart"
_ECDF_NOTE = "share of all requests in a group's runs, exact to 0.5 %; dashed: p50 and p95"
_BANDS_NOTE = "ms; line: p50, bands: up to p90, p95 and p99 of all requests of the runs together"


@dataclass(frozen=True, eq=False)
class Shown:
    """The content of a view: a figure (None where nothing can be drawn), every run of the slice, and notes.

    `groups` has the figure's own rows where these are groups of requests rather than runs.
    """

    figure: Figure | None
    runs: pd.DataFrame
    groups: pd.DataFrame | None
    notes: tuple[str, ...]


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the figure of a link. Raises KeyError for an unknown value, ValueError for an invalid date, UserError
    without a warehouse.
    """
    figure = shown(parse(parameters), mode).figure
    return [] if figure is None else [figure]


@cached_by_publication(_MAX_FIGURES)
def shown(view: Selection, mode: Mode) -> Shown:
    """Draw the figure with all that the page shows beside it. Raises UserError without a warehouse."""
    runs = data.runs(view.filters, tuple(dict.fromkeys([*view.numbers, *ALWAYS])), view.of_requests)
    if runs.empty:
        return Shown(None, runs, None, ())
    draw = {"ECDF": _ecdf, "Percentile bands": _bands, "Acceptance": _acceptance}.get(view.mark, _of_runs)
    return draw(view, runs, _order(runs), mode)


def _order(runs: pd.DataFrame) -> Order:
    """Return the arms of the newest study measured here, or else of the newest study."""
    measured = runs[runs["origin"] == "measured"]
    newest = (runs if measured.empty else measured)["job_id"].iloc[-1]
    return data.order(newest)


def _of_runs(view: Selection, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    x, y, notes = _axes(view, runs)
    rows = with_series(explore_runs.numbers(runs, x, y), view.colour)
    if lost := len(runs) - len(rows):
        noun = "group of requests" if view.of_requests else "run"
        nouns = "groups of requests" if view.of_requests else "runs"
        lacking = dict.fromkeys(within(axis.label) for axis in (y, x) if runs[axis.column].isna().any())
        notes.append(
            f"{count(lost, noun, nouns)} without {' or '.join(lacking)} cannot be drawn.{_without_price(runs)}"
        )
    if len(set(_currencies(rows))) > 1:
        rows = rows.iloc[:0]
        notes.append("Prices in several currencies are not compared: choose hardware that is priced in one.")
    if rows.empty:
        return Shown(None, runs, None, tuple(notes))
    rows, left_out = _cut(_with_verdicts(view, rows, y), view)
    if view.mark == "Pareto":
        rows = rows.assign(best=_best(rows, view))
    band, found = _of_others(rows, y)
    notes += found
    figure = _figure(view, rows, (x, y), order, mode, band=band)
    means = _mixed(rows, view) if view.mark in ("Line", "Bar") else []
    return Shown(figure, runs, None, (*notes, *left_out, *means))


def _without_price(runs: pd.DataFrame) -> str:
    """Say which hardware has no price; empty if no cost is drawn, or each run has a price."""
    without = runs.loc[runs["currency"].isna(), "hardware"].dropna() if "currency" in runs else pd.Series(dtype=str)
    names = " and ".join(sorted(set(map(str, without))))
    return f" {NO_PRICE} {names}: set one on Cost." if names else ""


def _with_verdicts(view: Selection, rows: pd.DataFrame, y: Axis) -> pd.DataFrame:
    """Add to the rows their cell, its verdict, and for a speed-up its ratio with bounds.

    The verdict is on the metric drawn, or on the output throughput if that cannot be compared. It is left out for
    slices of many studies, and of single turns or contexts.
    """
    jobs = rows.loc[rows["origin"] != "published", "job_id"].unique()
    cells = rows[["arm", "workload_label", "load"]].itertuples(index=False, name=None)
    cell = [" ".join(map(str, (job, *names))) for job, names in zip(rows["job_id"], cells, strict=True)]
    if not 0 < len(jobs) <= _MOST_JUDGED or view.of_requests:  # verdicts are on whole runs
        return rows.assign(cell=cell, verdict="")
    of_jobs = {job: _judged(job, y) for job in jobs}
    keys = zip(rows["job_id"], rows["arm"], rows["workload_label"], rows["load"], strict=True)
    found = [of_jobs.get(job, {}).get((arm, workload, load)) for job, arm, workload, load in keys]
    words = ["" if judged is None else judged.words for judged in found]
    is_baseline = rows["is_baseline"].eq(other=True)  # null is unknown
    rows = rows.assign(cell=cell, verdict=pd.Series(words, index=rows.index).mask(is_baseline, "baseline"))
    if y != SPEEDUP:
        return rows
    numbers = [(None, None, None) if judged is None else (judged.ratio, judged.low, judged.high) for judged in found]
    ratios = pd.DataFrame(numbers, columns=["ratio", "ratio_low", "ratio_high"], index=rows.index, dtype=float)
    return rows.join(ratios)


def _judged(job_id: str, y: Axis) -> dict[tuple[str, str, str], Judged]:
    """Return the verdicts on cells, by the drawn metric or else by output throughput, which they then name."""
    own = data.judged(job_id, y.column)
    if own or y == SPEEDUP:
        return own or data.judged(job_id, _COMPARED)
    return {cell: replace(it, words=it.words + _ON_OUTPUT) for cell, it in data.judged(job_id, _COMPARED).items()}


def _of_others(rows: pd.DataFrame, y: Axis) -> tuple[tuple[float, float] | None, list[str]]:
    """Return the range of published and imported speed-ups of the shown methods, and its sentence."""
    if y != SPEEDUP:
        return None, []
    methods = sorted(set(rows["method"]) - {"none", "unknown"})
    others = data.speedups_of_others(tuple(methods))
    others = others[~others["source"].isin(rows["job_id"])]
    if others.empty:
        return None, []
    low, high = (float(others["speedup"].quantile(share)) for share in (0.1, 0.9))
    named = _listed(sorted(spoken_name(method, None) for method in set(others["method"])))
    sources = count(len(set(others["source"])), "source")
    sentence = (
        f"Grey band: the middle 80 % of {count(len(others), 'speed-up')} that {sources} found for {named} on other "
        f"hardware ({times(low)} to {times(high)})."
    )
    return (low, high), [sentence]


def _figure(
    view: Selection,
    rows: pd.DataFrame,
    axes: tuple[Axis, Axis],
    order: Order,
    mode: Mode,
    *,
    band: tuple[float, float] | None,
) -> Figure:
    x, y = axes
    series_styles = _noted(styles(rows, view.colour, order, mode), rows, view, y)
    from_zero = view.mark == "Bar" or (view.mark == "Line" and y != SPEEDUP)
    shown_y, are_cut = explore_runs.span([*rows["y"], *(band or ())], from_zero=from_zero), False
    if view.mark in ("Bar", "Line"):
        panels_rows = [part for _, part in _parts(rows, view.facet)]
        shown_y, are_cut = explore_runs.with_whiskers(shown_y, panels_rows, from_zero=from_zero)
    scene = Scene(
        x,
        y,
        series_styles,
        mode,
        _height(rows, view.facet),
        explore_runs.order_of(rows, x),
        explore_runs.span(rows["x"], from_zero=False) if x.kind == "number" else None,
        shown_y,
        band,
    )
    draw = _CHARTS.get(view.mark) or partial(explore_runs.frontier, higher=view.frontier.higher)
    panels: tuple[Panel, ...] = tuple(
        (f"{title} ({count(part['run_id'].nunique(), 'run')})" if title else "", draw(part, scene))
        for title, part in _parts(rows, view.facet)
    )
    title = f"{y.label} {'against' if view.mark == 'Pareto' else 'by'} {within(x.label)}"
    return Figure(
        "explore",
        title,
        _note(view, rows, y) + (_CUT if are_cut else ""),
        series_styles,
        panels,
        rows.drop(columns=["x", "y"]),
    )


def _noted(series_styles: Sequence[ArmStyle], rows: pd.DataFrame, view: Selection, y: Axis) -> tuple[ArmStyle, ...]:
    """Add to the arms' styles their verdict over the cells of the slice, if it is of one study."""
    jobs = rows["job_id"].unique()
    if view.colour.column != "arm" or len(jobs) != 1 or view.of_requests:
        return tuple(series_styles)
    cells = frozenset(rows[["arm", "workload_label", "load"]].itertuples(index=False, name=None))
    own = data.verdicts_of_arms(jobs[0], y.column, cells)
    on_output = {
        arm: words + ("" if y == SPEEDUP else _ON_OUTPUT)
        for arm, words in data.verdicts_of_arms(jobs[0], _COMPARED, cells).items()
    }
    return tuple(replace(style, note=(own or on_output).get(style.arm, "")) for style in series_styles)


def _axes(view: Selection, runs: pd.DataFrame) -> tuple[Axis, Axis, list[str]]:
    """Return the axes, with costs in the currency of their prices, and notes. A frontier is per GPU for all runs or
    none.
    """
    x, y = (view.frontier.x, view.frontier.y) if view.mark == "Pareto" else (view.x, view.metric)
    currencies = set(_currencies(runs))
    if len(currencies) == 1:
        (unit,) = currencies
        x, y = (replace(axis, unit=unit) if axis == COST else axis for axis in (x, y))
    if view.mark != "Pareto" or y != PER_GPU:
        return x, y, []
    has_rates = runs[PER_USER.column].notna() & runs[PER_ENGINE.column].notna()
    if runs.loc[has_rates, "gpus"].isna().any():
        return x, PER_ENGINE, ["The number of GPUs is unknown for some runs: throughput is that of a whole engine."]
    return x, y, []


def _currencies(rows: pd.DataFrame) -> list[str]:
    return rows["currency"].dropna().tolist() if "currency" in rows else []


def _best(rows: pd.DataFrame, view: Selection) -> pd.Series:
    """Return whether no other run of the same panel is better in both numbers."""
    higher = view.frontier.higher
    panels = []
    for _, part in _parts(rows, view.facet):
        x, y = part["x"].to_numpy(float), part["y"].to_numpy(float)
        panels.append(pd.Series(explore_runs.on_frontier(x, y, higher_x=higher, higher_y=higher), index=part.index))
    together: pd.Series = pd.concat(panels)
    return together


def _note(view: Selection, rows: pd.DataFrame, y: Axis) -> str:
    if view.mark == "Pareto":
        return "each point is a run; the dashed line joins runs that no other run beats in both"
    few = len(rows) <= explore_runs.MOST_POINTS
    points = "a run's requests of one turn or context" if view.of_requests else "a run"
    runs = points if view.of_requests else "runs"
    words = {
        "Scatter": f"each point is {points}",
        "Bar": "bars: means of the runs, whiskers: 95 % intervals",
        "Line": f"{f'points: {runs}, ' if few else ''}line: means of the runs, whiskers: 95 % intervals",
    }[view.mark]
    return f"{y.unit}; {words}" if y.unit else words


def _acceptance(view: Selection, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    """Draw the share of drafts that were accepted up to each position, over the runs of each group."""
    measured = data.acceptance(runs["run_id"].tolist()).merge(runs.drop_duplicates("run_id"), on="run_id")
    if measured.empty:
        return Shown(None, runs, None, ("No run of this slice has counted acceptance by position.",))
    notes = [f"{count(lost, 'run')} without it cannot be drawn."] if (lost := _lost(runs, measured)) else []
    rows, left_out = _cut(with_series(measured, view.colour), view)
    facet = [] if view.facet is None else [view.facet.column]
    rows = rows.assign(accepted=rows["acceptance"] * rows["drafts"])
    groups = rows.groupby(["series", *facet, "position"], sort=False, as_index=False)[["accepted", "drafts"]].sum()
    groups = groups.assign(acceptance=groups["accepted"] / groups["drafts"], arm=groups["series"])
    series_styles = styles(rows, view.colour, order, mode)
    drawn = groups.rename(columns={"drafts": "num_drafts"})
    drawn = drawn if "category" in drawn else drawn.assign(category="all")
    parts, positions = _parts(drawn, view.facet), int(groups["position"].max())
    panels = panels_of(parts, lambda part: results.acceptance_panel(part, series_styles, positions))
    note = "share of drafts accepted up to this position, weighted by drafts"
    shown_rows = groups.drop(columns=["accepted", "arm"])
    figure = Figure("explore", "Acceptance by position in the draft", note, series_styles, panels, shown_rows)
    return Shown(figure, runs, None, (*notes, *left_out))


def _lost(runs: pd.DataFrame, measured: pd.DataFrame) -> int:
    """Count the speculating runs without acceptance by position."""
    drafting = runs.loc[runs["method"] != "none", "run_id"]
    return int((~drafting.isin(measured["run_id"])).sum())


def _ecdf(view: Selection, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    """Draw each group's distribution of request latencies."""
    pooled, groups, notes = _pooled(view, runs, ())
    if pooled.empty:
        return Shown(None, runs, None, tuple(notes))
    series_styles = styles(pooled, view.colour, order, mode)
    curves = [(title, explore_runs.shares(part)) for title, part in _parts(pooled, view.facet)]
    every = pd.concat([part["ms"] for _, part in curves])
    domain = (float(every.min()), float(every.max()))
    scene = Scene(view.latency, view.latency, series_styles, mode, _height(pooled, view.facet), x_domain=domain)
    panels = panels_of(curves, lambda part: explore_runs.ecdf(part, scene))
    figure = Figure("explore", f"{view.latency.label} of single requests", _ECDF_NOTE, series_styles, panels, groups)
    return Shown(figure, runs, groups, tuple(notes))


def _bands(view: Selection, runs: pd.DataFrame, order: Order, mode: Mode) -> Shown:
    pooled, groups, notes = _pooled(view, runs, (view.x.column,))
    if pooled.empty:
        return Shown(None, runs, None, tuple(notes))
    series_styles = styles(pooled, view.colour, order, mode)
    rows = groups.assign(x=groups[view.x.column])
    top = explore_runs.span(rows["p99"], from_zero=True)
    scene = Scene(
        view.x, view.latency, series_styles, mode, PANEL_HEIGHT, explore_runs.order_of(rows, view.x), y_domain=top
    )
    panels = [panel for style in series_styles for panel in _of_style(rows, style, view, scene)]
    if len(panels) > MAX_PANELS:
        notes.append(f"Only the first {MAX_PANELS} panels of {len(panels)} are drawn.")
    title = f"{view.latency.label} by {within(view.x.label)}"
    figure = Figure("explore", title, _BANDS_NOTE, series_styles, tuple(panels[:MAX_PANELS]), groups)
    return Shown(figure, runs, groups, tuple(notes))


def _of_style(rows: pd.DataFrame, style: ArmStyle, view: Selection, scene: Scene) -> list[Panel]:
    """Return a panel for each facet: each colour has panels of its own, because overlapping bands cannot be read."""
    return [
        (f"{style.arm} · {title}" if title else style.arm, explore_runs.bands(own, style, scene))
        for title, part in _parts(rows, view.facet)
        if len(own := part[part["series"] == style.arm])
    ]


def _pooled(view: Selection, runs: pd.DataFrame, more: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Counts by bucket with `series`, percentiles of each group, and notes."""
    facet = () if view.facet is None else (view.facet.column,)
    by = tuple(dict.fromkeys([view.colour.column, "origin", *facet, *more]))
    counts, of_runs = data.pooled(view.filters, view.latency.column, by)
    notes = []
    lost = 0 if view.of_requests else len(runs) - int(of_runs["runs"].sum())  # else runs have several rows
    if lost:
        notes.append(f"{count(lost, 'run')} without this latency of single requests cannot be drawn.")
    if counts.empty:
        return counts, counts, notes
    counts, left_out = _cut(with_series(counts, view.colour), view)
    groups = explore_runs.percentiles(counts, list(dict.fromkeys(["series", *by]))).merge(of_runs, on=list(by))
    return counts, groups, [*notes, *left_out]


def _parts(rows: pd.DataFrame, facet: Axis | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return each panel's title (empty if there is only one) and rows."""
    values = [] if facet is None else sorted(rows[facet.column].unique(), key=natural)
    if facet is None or len(values) == 1:
        yield "", rows
        return
    for value in values:
        yield _title(facet, value), rows[rows[facet.column] == value]


def _title(facet: Axis, value: str) -> str:
    """Return the value, preceded by its dimension if the value alone is unclear."""
    return value if natural(value)[0] == 1 and facet.column != "day" else f"{facet.label}: {value}"


def _height(rows: pd.DataFrame, facet: Axis | None) -> int:
    return HEIGHT if facet is None or len(rows[facet.column].unique()) == 1 else PANEL_HEIGHT


def _cut(rows: pd.DataFrame, view: Selection) -> tuple[pd.DataFrame, list[str]]:
    """Limit the rows to as many panels, colours and marks as can be read; note what is left out."""
    notes = []
    for axis, most, noun in ((view.facet, MAX_PANELS, "panels"), (view.colour, MAX_SERIES, "colours")):
        if axis is None:
            continue
        sizes = rows[axis.column].value_counts()
        if len(sizes) > most:
            notes.append(f"Only the {most} {noun} with the most to draw are shown, of {len(sizes)}.")
            rows = rows[rows[axis.column].isin(sizes.index[:most])]
    if view.mark in ("Scatter", "Pareto") and len(rows) > MOST_MARKS:
        notes.append(f"Only the newest {MOST_MARKS:,} of {len(rows):,} runs are drawn.")
        rows = rows.tail(MOST_MARKS)
    return rows, notes


def _mixed(rows: pd.DataFrame, view: Selection) -> list[str]:
    """Return a note that names properties in which the runs behind one mean differ without the chart showing it."""
    facet = [] if view.facet is None else [view.facet.column]
    by, distinct = ["x", "series", *facet], {view.x.column, view.colour.column, *facet}
    points = len(rows[by].drop_duplicates())
    several = [
        name.replace("_", " ")
        for name in _MIXABLE
        if name in rows and name not in distinct and len(rows[[*by, name]].drop_duplicates()) > points
    ]
    if not several:
        return []
    return [f"Some means mix runs that differ in {_listed(several)}: split them by panel or colour, or filter."]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def within(label: str) -> str:
    """Return a label in the form used within a sentence."""
    return label if label[1:2].isupper() else label[0].lower() + label[1:]
