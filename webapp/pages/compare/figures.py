"""The figures of the Compare page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from lab.comparison.breakeven import BreakEven
from lab.comparison.verdict import MARKS
from lab.quality.non_inferiority import MARGIN
from warehouse.queries.comparing.comparisons import break_evens
from warehouse.queries.comparing.ratio_tables import ArmTable
from webapp.charts import by_group, compare, results
from webapp.charts import quality as quality_chart
from webapp.charts.axes import arms_drawn
from webapp.charts.panels import Figure, Panel
from webapp.charts.theme import ArmStyle, Mode, arm_styles
from webapp.pages.compare import data as compare_data
from webapp.pages.compare import selection, tables
from webapp.pages.compare.selection import Choice
from webapp.shared import published_data, url_params
from webapp.shared.url_params import Param

#: With more workloads than this, only the chosen one is drawn by concurrency.
MAX_WORKLOADS = 9
#: Three panels stand side by side in a window of 1280 pixels.
_NARROW = 250
_MAX_FIGURES = 256
#: What a session or prompts of several lengths are drawn by.
_GRAINS: Mapping[Literal["turn", "context"], str] = {"turn": "Turn of the session", "context": "Context up to (tokens)"}
#: Verdicts that the heat map's note explains in any case.
_USUAL = ("faster", "slower", "no difference", "not enough data")


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """The heat map, ratios by concurrency, acceptance and latencies; figures without rows are left out.

    Raises KeyError without a study or for an unknown metric, UserError where nothing can be compared.
    """
    return [drawn for key in _FIGURES if (drawn := figure(key, parameters, mode)) is not None]


def figure(key: str, parameters: Mapping[str, Sequence[str]], mode: Mode) -> Figure | None:
    """One figure, or None without rows. Cached: a parameter that it does not depend on does not draw it again."""
    ignored = {param.key for param in _FIGURES[key].ignores}
    relevant = tuple((name, tuple(values)) for name, values in parameters.items() if name not in ignored)
    return _figure(key, relevant, mode)


@published_data.cached_by_publication(_MAX_FIGURES)
def _figure(key: str, parameters: tuple[tuple[str, tuple[str, ...]], ...], mode: Mode) -> Figure | None:
    choice = selection.parse(dict(parameters))
    return _FIGURES[key].draw(choice, styles_of(choice, mode), mode)


def styles_of(choice: Choice, mode: Mode) -> tuple[ArmStyle, ...]:
    """The styles of the study's arms: each has the colour of the other pages, whichever arm is the baseline here."""
    is_baseline = selection.baselines(choice.job_id)
    declared = next((pair.baseline.arm for pair in choice.comparison.pairs if pair.baseline.is_baseline), None)
    declared = declared or next((p.candidate.arm for p in choice.comparison.pairs if p.candidate.is_baseline), None)
    order = [*published_data.arms(choice.job_id), *is_baseline]
    return arm_styles(list(dict.fromkeys(order)), declared, mode)


def _heat(choice: Choice, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    return heat(choice, compare_data.tables(choice.job_id, choice.comparison, choice.heat_rows), mode)


def heat(choice: Choice, every: Sequence[ArmTable], mode: Mode) -> Figure | None:
    """A heat map per chosen candidate, all on one colour scale; `every` has the tables of all candidates."""
    own = [table for table in every if table.arm in choice.candidates]
    rows = tables.heat(sorted(own, key=lambda table: choice.candidates.index(table.arm)))
    if rows["ratio"].isna().all():
        return None
    sides = [
        compare.Side(title, _in_order(rows, side)) for title, side in ((choice.heat_rows, "row"), ("load", "column"))
    ]
    reach, higher = compare.heat_reach(rows), choice.measure.higher_is_better
    panels = tuple(
        (str(arm), compare.heat_panel(part, sides[0], sides[1], reach, mode, higher=higher))
        for arm, part in rows.groupby("arm", sort=False)
    )
    shown = {*_USUAL, *rows["verdict"].dropna()}
    marks = ", ".join(f"{mark} {word}" for word, mark in MARKS.items() if word in shown)
    note = f"over {choice.comparison.baseline}; blue is better; {marks}"
    title = f"{choice.measure.ratio_label} by {choice.heat_rows} and load"
    return Figure("heat", title, note, (), panels, rows, compare.heat_width(*sides))


def _in_order(rows: pd.DataFrame, side: str) -> tuple[str, ...]:
    """The values of one side, means last."""
    values = list(dict.fromkeys(rows[side]))
    return tuple(sorted(values, key=lambda value: value == tables.MEAN))


def crossing(choice: Choice, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """A panel per workload that was measured at several concurrencies, with one load at each."""
    rows = tables.gains(choice.pairs)
    lines = rows.groupby("workload")["concurrency"]
    rows = rows[(lines.transform("nunique") > 1) & ~rows.duplicated(["arm", "workload", "concurrency"], keep=False)]
    if rows["workload"].nunique() > MAX_WORKLOADS:
        rows = rows[rows["workload"] == choice.workload]
    if rows.empty:
        return None
    crossings = tables.crossings(evens(choice))
    look = compare.Look(
        f"{choice.measure.ratio_label} (×)",
        results.ratio_domain(rows),
        _drawn(rows, styles),
        mode,
        choice.measure.higher_is_better,
    )
    panels = _panels(
        rows, lambda part, workload: compare.break_even_panel(part, crossings[crossings["workload"] == workload], look)
    )
    title = f"{choice.measure.ratio_label} by concurrency"
    note = "bars: 95 % intervals; hollow mark and band: the crossing of 1× with its interval"
    return Figure("break-even", title, note, look.styles, panels, rows)


def _panels(rows: pd.DataFrame, draw: Callable[[pd.DataFrame, str], object]) -> tuple[Panel, ...]:
    return tuple((str(name), draw(part, str(name))) for name, part in rows.groupby("workload", sort=False))  # type: ignore[misc]


def evens(choice: Choice) -> dict[tuple[str, str], BreakEven]:
    """The break-even of each chosen candidate and workload."""
    return {line: even for line, even in break_evens(choice.comparison).items() if line[0] in choice.candidates}


def _positions(choice: Choice, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Acceptance of the candidates, and of the baseline if it speculates."""
    rows = tables.positions(compare_data.acceptances(compare_data.runs_at(choice.here)))
    if rows.empty:
        return None
    drawn = _drawn(rows, styles)
    panels: tuple[Panel, ...] = (
        ("By position", compare.position_shares(rows, "acceptance", drawn)),
        ("Given all positions before", compare.position_shares(rows, "conditional", drawn)),
        ("Tokens per round, by k", compare.tokens_per_round(rows, drawn, mode)),
    )
    note = f"{choice.workload}, {choice.load}; hollow marks: estimates for a smaller k"
    return Figure("positions", "Acceptance by position in the draft", note, drawn, panels, rows, _NARROW)


def _surface(choice: Choice, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Where each candidate pays over concurrency and context; only where several contexts were measured."""
    found = compare_data.surfaces(choice.job_id, choice.comparison.baseline)
    shown = {arm: found[arm] for arm in choice.candidates if arm in found and len(found[arm].contexts) > 1}
    if not shown:
        return None
    cells, lines = tables.surface_cells(shown), tables.surface_lines(shown)
    reach = compare.heat_reach(cells.assign(ratio=cells["gain"]))
    panels: tuple[Panel, ...] = tuple(
        (str(arm), by_group.surface_panel(part, lines[lines["arm"] == arm], reach, mode))
        for arm, part in cells.groupby("arm", sort=False)
    )
    note = (
        f"time per token, over {choice.comparison.baseline}; blue is better; mark and bar: the crossing of 1× with its "
        "interval, pale where that is open; needs: the acceptance length that breaks even there"
    )
    return Figure("surface", "Gain by concurrency and length of context", note, (), panels, cells)


def _quality(choice: Choice, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """The scores of the chosen candidates against the baseline's; only where answers were scored."""
    rows = tables.scores(compare_data.qualities(choice.job_id, choice.comparison), choice.candidates)
    if rows.empty:
        return None
    drawn, margin = _drawn(rows, styles), 100 * MARGIN
    panels = _panels(rows, lambda part, _workload: quality_chart.quality_panel(part, margin, drawn, mode))
    note = f"same prompts, all loads and repeats; bars: 95 % intervals; dashed: the margin of {margin:g} points"
    return Figure("quality", "Quality of the answers", note, drawn, panels, rows)


def _matrix(choice: Choice, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Acceptance length by arm and category; only where there are several categories."""
    arms = {*choice.candidates, choice.comparison.baseline}
    rows = tables.matrix([cell for cell in compare_data.matrix(choice.job_id) if cell.arm in arms])
    if rows.empty or rows["category"].nunique() < 2:
        return None
    note = "tokens per round, all workloads and loads together; 95 % intervals over prompts"
    panels: tuple[Panel, ...] = (("", by_group.matrix_panel(rows, mode)),)
    return Figure("matrix", "Acceptance length by arm and category", note, (), panels, rows)


def _steps(choice: Choice, styles: Sequence[ArmStyle], _mode: Mode) -> Figure | None:
    """By turn of sessions, or by context where prompts are single and of several lengths."""
    for grain, axis in _GRAINS.items():
        rows = tables.steps(choice, grain)
        if rows["step"].nunique() < 2:
            continue
        drawn = _drawn(rows, styles)
        panels: tuple[Panel, ...] = tuple(
            ("", by_group.steps_panel(part, str(title), axis, [s for s in drawn if s.arm in set(part["arm"])]))
            for title, part in rows.groupby("title", sort=False)
        )
        note = f"{choice.workload}, {choice.load}; all repeats together; bars: from the least run to the greatest"
        return Figure("steps", f"By {axis[0].lower()}{axis[1:]}", note, drawn, panels, rows, _NARROW)
    return None


def _ecdf(choice: Choice, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    rows = tables.ecdf(compare_data.histograms(compare_data.runs_at(choice.here)))
    if rows.empty:
        return None
    drawn = _drawn(rows, styles)
    parts = {latency: rows[rows["latency"] == latency] for latency in compare_data.LATENCIES}
    panels: tuple[Panel, ...] = tuple(
        ("", compare.ecdf_panel(part, compare_data.LATENCIES[latency], drawn, mode))
        for latency, part in parts.items()
        if not part.empty
    )
    note = f"{choice.workload}, {choice.load}; all repeats pooled, exact to 0.5 %; marks: medians"
    return Figure("ecdf", "Latency of requests", note, drawn, panels, rows, _NARROW)


def _drawn(rows: pd.DataFrame, styles: Sequence[ArmStyle]) -> tuple[ArmStyle, ...]:
    arms = arms_drawn(rows, [style.arm for style in styles])
    return tuple(style for style in styles if style.arm in arms)


@dataclass(frozen=True)
class _Declared:
    """A figure of this page. `of_cell`: it shows one workload and load. `ignores`: what does not change it."""

    draw: Callable[[Choice, Sequence[ArmStyle], Mode], Figure | None]
    ignores: tuple[Param, ...]
    of_cell: bool = False


_CELL, _HEAT = (url_params.AT_WORKLOAD, url_params.AT_LOAD), (url_params.HEAT_ROWS, url_params.READING)
#: By key, in the order of the page.
_FIGURES: Mapping[str, _Declared] = {
    "heat": _Declared(_heat, _CELL),
    "break-even": _Declared(crossing, (url_params.AT_LOAD, *_HEAT)),
    "surface": _Declared(_surface, (*_CELL, *_HEAT, url_params.METRIC)),
    "matrix": _Declared(_matrix, (*_CELL, *_HEAT, url_params.METRIC, url_params.BASELINE)),
    "quality": _Declared(_quality, (*_CELL, *_HEAT, url_params.METRIC)),
    "positions": _Declared(_positions, _HEAT, of_cell=True),
    "steps": _Declared(_steps, (*_HEAT, url_params.METRIC), of_cell=True),
    "ecdf": _Declared(_ecdf, _HEAT, of_cell=True),
}
#: The figures of all cells, and those of one workload and load.
OF_ALL, OF_CELL = (tuple(key for key, one in _FIGURES.items() if one.of_cell == of_cell) for of_cell in (False, True))
