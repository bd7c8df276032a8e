"""The figures of the Compare page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pandas as pd

from lab.comparison.breakeven import BreakEven
from lab.comparison.verdict import MARKS
from lab.metrics.catalogue import BY_NAME
from lab.quality.non_inferiority import MARGIN
from warehouse.queries.comparing.comparisons import StudyComparison, break_evens
from warehouse.queries.comparing.ratio_tables import ArmTable
from webapp.charts import by_group, compare
from webapp.charts.axes import ratio_domain
from webapp.charts.panels import Figure, Panel, panels_of, verdict_notes
from webapp.charts.theme import ArmStyle, Mode, arm_styles, styles_drawn
from webapp.pages.compare import across_selection, data, tables
from webapp.pages.compare.across_selection import AcrossSelection
from webapp.pages.compare.selection import Selection, baselines, parse
from webapp.shared import published_data, url_params

#: With more workloads than this, only the chosen one is drawn by concurrency.
MAX_WORKLOADS = 9
#: Three panels stand side by side in a window of 1280 pixels.
_NARROW = 250
_MAX_FIGURES = 256
#: Axes of sessions, and of prompts of several lengths.
GRAINS: Mapping[Literal["turn", "context"], str] = {"turn": "Turn of the session", "context": "Context up to (tokens)"}
#: Verdicts that the heat map's note explains in any case.
_USUAL = ("faster", "slower", "no difference", "inconclusive")
Draw = Callable[[Selection, Sequence[ArmStyle], Mode], Figure | None]


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw all figures of a link; those without rows are left out.

    Raises KeyError without a study, UserError where nothing can be compared.
    """
    if parameters.get(url_params.WITH.key):
        of_several = across_figure(across_selection.parse(parameters), mode)
        return [] if of_several is None else [of_several]
    selection = parse(parameters)
    return [drawn for key in _FIGURES if (drawn := figure(key, selection, mode)) is not None]


def figure(key: str, selection: Selection, mode: Mode) -> Figure | None:
    """Draw one figure, None without rows. Cached: a field that does not change it does not draw it again."""
    return _figure(key, selection.only(*_FIGURES[key][1]), mode)


@published_data.cached_by_publication(_MAX_FIGURES)
def _figure(key: str, selection: Selection, mode: Mode) -> Figure | None:
    return _FIGURES[key][0](selection, _styles(selection, mode), mode)


def _styles(selection: Selection, mode: Mode) -> tuple[ArmStyle, ...]:
    """Return the arms' styles, with the same colours as on other pages, whichever arm is the baseline here."""
    arms = [arm for pair in selection.comparison.pairs for arm in (pair.baseline, pair.candidate)]
    declared = next((arm.arm for arm in arms if arm.is_baseline), None)
    drafting = published_data.arms(selection.job_id)
    return arm_styles(dict.fromkeys([*drafting, *baselines(selection.job_id)]), declared, mode, drafting)


def _heat(selection: Selection, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    every = data.tables(selection.comparison, selection.heat_rows)
    return heat(selection.comparison, selection.candidates, selection.heat_rows, every, mode)


def heat(
    comparison: StudyComparison, candidates: Sequence[str], title: str, every: Sequence[ArmTable], mode: Mode
) -> Figure | None:
    """Draw a heat map per candidate, all on one colour scale.

    `every` has the tables of all candidates, `title` names their rows.
    """
    own = [table for table in every if table.arm in candidates]
    rows = tables.heat(sorted(own, key=lambda table: candidates.index(table.arm)))
    if rows["ratio"].isna().all():
        return None
    down, across = (compare.Side(name, _in_order(rows, side)) for name, side in ((title, "row"), ("load", "column")))
    reach, measure = compare.heat_reach(rows), BY_NAME[comparison.metric]
    panels = panels_of(
        rows.groupby("arm", sort=False),
        lambda part: compare.heat_panel(part, down, across, reach, mode, higher=measure.higher_is_better),
    )
    shown = {*_USUAL, *rows["verdict"].dropna()}
    marks = ", ".join(f"{mark} {word}" for word, mark in MARKS.items() if word in shown)
    note = f"over {comparison.baseline}; blue is better; {marks}"
    heading = f"{measure.ratio_label} by {title} and load"
    return Figure("heat", heading, note, (), panels, rows, compare.heat_width(rows, down, across))


def _in_order(rows: pd.DataFrame, side: str) -> tuple[str, ...]:
    """Return the values of one side, means last."""
    values = list(dict.fromkeys(rows[side]))
    return tuple(sorted(values, key=lambda value: value == tables.MEAN))


def _crossing(selection: Selection, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    return crossing(selection.comparison, selection.candidates, styles, mode, selection.workload)


def crossing(
    comparison: StudyComparison, candidates: Sequence[str], styles: Sequence[ArmStyle], mode: Mode, workload: str = ""
) -> Figure | None:
    """Draw a panel per workload that was measured at several concurrencies, with one load at each.

    If there are more than MAX_WORKLOADS, only `workload` is drawn.
    """
    rows = tables.gains([pair for pair in comparison.pairs if pair.candidate.arm in candidates])
    lines = rows.groupby("workload")["concurrency"]
    rows = rows[(lines.transform("nunique") > 1) & ~rows.duplicated(["arm", "workload", "concurrency"], keep=False)]
    if rows["workload"].nunique() > MAX_WORKLOADS:
        rows = rows[rows["workload"] == workload]
    if rows.empty:
        return None
    crossings, measure = tables.crossings(evens(comparison, candidates)), BY_NAME[comparison.metric]
    domain, drawn = ratio_domain(rows), styles_drawn(rows, styles)
    title = measure.ratio_label
    setting = compare.RatioSetting(f"{title} (×)", domain, drawn, mode, measure.higher_is_better)
    panels = panels_of(
        rows.groupby("workload", sort=False),
        lambda part: compare.break_even_panel(
            part, crossings[crossings["workload"] == part["workload"].iloc[0]], setting
        ),
    )
    crossed = crossings["workload"].isin(rows["workload"]) & crossings["concurrency"].notna()
    notes = verdict_notes(rows) + (["tick and band: the crossing of 1× with its interval"] if crossed.any() else [])
    return Figure("break-even", f"{title} by concurrency", "; ".join(notes), drawn, panels, rows)


def across_figure(selection: AcrossSelection, mode: Mode) -> Figure | None:
    """Draw the ratios of other studies' arms by concurrency, a panel for each workload of the baseline; None without a
    closed loop.
    """
    found, measure = selection.found, selection.measure
    rows = tables.across(found)
    if rows.empty:
        return None
    drafting = {
        found.names[pair.candidate.of]: (method, int(k) if (k := facts["draft tokens k"] or "").isdigit() else None)
        for facts, pair in ((pair.candidate.facts, pair) for pair in found.pairs)
        if (method := facts["method"])
    }
    drawn = arm_styles(dict.fromkeys(rows["arm"]), None, mode, drafting)
    title, crossings = measure.ratio_label, tables.crossings({})
    setting = compare.RatioSetting(f"{title} (×)", ratio_domain(rows), drawn, mode, measure.higher_is_better)
    panels = panels_of(
        rows.groupby("panel", sort=False), lambda part: compare.break_even_panel(part, crossings, setting)
    )
    note = (
        f"over {found.names[found.baseline]}; bars: unpaired 95 % intervals, where there are several runs; no verdicts"
    )
    return Figure("across", f"{title} of other studies by concurrency", note, drawn, panels, rows)


def evens(comparison: StudyComparison, candidates: Sequence[str]) -> dict[tuple[str, str], BreakEven]:
    """Return the break-even of each of these candidates and workload."""
    return {line: even for line, even in break_evens(comparison).items() if line[0] in candidates}


def _surface(selection: Selection, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Draw where each candidate pays over concurrency and context, if several contexts were measured."""
    found = data.surfaces(selection.job_id, baseline=selection.baseline)
    shown = {arm: found[arm] for arm in selection.candidates if arm in found and len(found[arm].contexts) > 1}
    if not shown:
        return None
    cells, lines = tables.surface_cells(shown), tables.surface_lines(shown)
    reach = compare.heat_reach(cells.assign(ratio=cells["gain"]))
    panels = panels_of(
        cells.groupby("arm", sort=False),
        lambda part: by_group.surface_panel(part, lines[lines["arm"] == part["arm"].iloc[0]], reach, mode),
    )
    note = (
        f"time per token, over {selection.baseline}; blue is better; mark and bar: the crossing of 1× with its "
        "interval, pale where that is inconclusive; needs: the acceptance length that breaks even there"
    )
    return Figure("surface", "Gain by concurrency and length of context", note, (), panels, cells)


def _matrix(selection: Selection, _styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Draw acceptance length by arm and category, if there are several categories."""
    rows = acceptance_matrix(selection)
    if rows.empty or rows["category"].nunique() < 2:
        return None
    note = "tokens per round, all workloads and loads together; 95 % intervals over prompts"
    panels: tuple[Panel, ...] = (("", by_group.matrix_panel(rows, mode)),)
    return Figure("matrix", "Acceptance length by arm and category", note, (), panels, rows)


def acceptance_matrix(selection: Selection) -> pd.DataFrame:
    """Return acceptance length by arm and category (`tables.matrix`) of the chosen candidates and the baseline."""
    arms = {*selection.candidates, selection.baseline}
    return tables.matrix([cell for cell in data.matrix(selection.job_id) if cell.arm in arms])


def _quality(selection: Selection, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Draw the scores of the chosen candidates against the baseline's, if answers were scored."""
    rows = tables.scores(data.qualities(selection.comparison), selection.candidates)
    if rows.empty:
        return None
    drawn, margin = styles_drawn(rows, styles), 100 * MARGIN
    panels = panels_of(
        rows.groupby("workload", sort=False), lambda part: compare.quality_panel(part, margin, drawn, mode)
    )
    note = f"same prompts, all loads and repeats; bars: 95 % intervals; dashed: the margin of {margin:g} points"
    return Figure("quality", "Quality of the answers", note, drawn, panels, rows)


def _positions(selection: Selection, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    """Draw the acceptance of the candidates, and of the baseline if it speculates."""
    rows = tables.positions(data.acceptances(data.runs_at(selection.here)))
    if rows.empty:
        return None
    drawn = styles_drawn(rows, styles)
    panels: tuple[Panel, ...] = (
        ("By position", compare.position_shares(rows, "acceptance", drawn)),
        ("Given all positions before", compare.position_shares(rows, "conditional", drawn)),
        ("Tokens per round, by k", compare.tokens_per_round(rows, drawn, mode)),
    )
    note = f"{selection.workload}, {selection.load}; hollow marks: estimates for a smaller k"
    return Figure("positions", "Acceptance by position in the draft", note, drawn, panels, rows, _NARROW)


def _steps(selection: Selection, styles: Sequence[ArmStyle], _mode: Mode) -> Figure | None:
    """Draw values by turn for sessions, or by context for single prompts of several lengths."""
    for grain, axis in GRAINS.items():
        rows = tables.steps(selection, grain)
        if rows["step"].nunique() < 2:
            continue
        drawn = styles_drawn(rows, styles)
        panels: tuple[Panel, ...] = tuple(
            ("", by_group.steps_panel(part, str(title), axis, styles_drawn(part, drawn)))
            for title, part in rows.groupby("title", sort=False)
        )
        note = f"{selection.workload}, {selection.load}; all repeats together; bars: from the lowest run to the highest"
        return Figure("steps", f"By {axis[0].lower()}{axis[1:]}", note, drawn, panels, rows, _NARROW)
    return None


def _ecdf(selection: Selection, styles: Sequence[ArmStyle], mode: Mode) -> Figure | None:
    rows = tables.ecdf(data.histograms(data.runs_at(selection.here)))
    if rows.empty:
        return None
    drawn = styles_drawn(rows, styles)
    panels: tuple[Panel, ...] = tuple(
        ("", compare.ecdf_panel(part, label, drawn, mode))
        for latency, label in data.LATENCIES.items()
        if not (part := rows[rows["latency"] == latency]).empty
    )
    note = f"{selection.workload}, {selection.load}; all repeats pooled, exact to 0.5 %; marks: medians"
    return Figure("ecdf", "Latency of requests", note, drawn, panels, rows, _NARROW)


#: By key, in the order of the page: how a figure is drawn, and the fields of a selection that change it, apart from
#: study and chosen candidates.
_FIGURES: Mapping[str, tuple[Draw, tuple[str, ...]]] = {
    "heat": (_heat, ("baseline", "metric", "reading", "heat_rows")),
    "break-even": (_crossing, ("baseline", "metric", "reading", "workload")),
    "surface": (_surface, ("baseline",)),
    "matrix": (_matrix, ()),
    "quality": (_quality, ("baseline",)),
    "positions": (_positions, ("baseline", "metric", "workload", "load")),
    "steps": (_steps, ("baseline", "workload", "load")),
    "ecdf": (_ecdf, ("baseline", "metric", "workload", "load")),
}
#: The figures of all cells, and the figures of one workload and load.
OF_CELL = tuple(key for key, (_, fields) in _FIGURES.items() if "load" in fields)
OF_ALL = tuple(key for key in _FIGURES if key not in OF_CELL)
