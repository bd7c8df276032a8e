"""Draws the content of a shared link as cards: a dashboard, a study's answer and figures, or a run with its numbers.

Nothing here checks access, and the output depends only on the item, never on the visitor's address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from access.shared_links import Kind
from lab.errors import UserError
from lab.metrics.catalogue import METRICS
from lab.validity.words import lost_words
from warehouse.app_db import dashboards, pins
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.compare import figures as compare_figures
from webapp.pages.compare import selection as compare_selection
from webapp.pages.dashboards import render_pins
from webapp.pages.dashboards.html_export import Sheet, sheets_of
from webapp.pages.results import figures as results_figures
from webapp.pages.run import figures as run_figures
from webapp.shared import published_data, url_params
from webapp.shared.downloads import About, provenance_of_jobs, provenance_of_view
from webapp.shared.text import count, moment
from webapp.shared.verdicts import answers

Draw = Callable[[Mode], Sequence[Figure]]


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a link. `sentence` is the most important line, `lines` are the rest; a preview shows `picture`."""

    title: str
    sentence: str
    lines: tuple[str, ...]
    sheets: tuple[Sheet, ...]

    @property
    def picture(self) -> tuple[Figure, About] | None:
        drawn = ((sheet.light, sheet.about) for sheet in self.sheets)
        return next(((figure, about) for figure, about in drawn if figure is not None and figure.panels), None)


def title_of(kind: Kind, subject: str) -> str | None:
    """Return the item's title; None if it does not exist. Raises UserError without a warehouse."""
    if kind is Kind.DASHBOARD:
        board = dashboards.find(published_data.engine(), subject)
        return None if board is None or board.removed_at is not None else board.name
    if kind is Kind.STUDY:
        studies = published_data.studies_with_results()
        names = studies.loc[studies["job_id"] == subject, "study_name"]
        return None if names.empty else str(names.iloc[0])
    found = _run(subject)
    return None if found is None else _run_title(found)


_NO_ANSWER = "No answer yet: the study has no valid run of its baseline."


def content_of(kind: Kind, subject: str) -> Content | None:
    """Draw the item; None if it does not exist (any more). Raises UserError without a warehouse."""
    with published_data.one_drawing():
        title = title_of(kind, subject)
        return None if title is None else _CONTENT_OF[kind](subject, title)


def _dashboard(dashboard_id: str, title: str) -> Content:
    pinned = pins.pins_on(published_data.engine(), dashboard_id)
    light, dark = (render_pins.render(pinned, mode, "") for mode in ("light", "dark"))
    sheets = tuple(replace(sheet, about=replace(sheet.about, link="")) for sheet in sheets_of(light, dark))
    figures = sum(sheet.light is not None for sheet in sheets)
    as_of = moment(published_data.published_at())
    return Content(title, f"A dashboard with {count(figures, 'figure')}; data of {as_of}.", (), sheets)


def _study(job_id: str, title: str) -> Content:
    text = answers.text_of(job_id)
    first, *more = [line.sentence for line in answers.lines_of(job_id)] or [
        _NO_ANSWER if text is None else text.headline
    ]
    lines = (*more, *(() if text is None else text.lines[1:]))
    parameters, subject = {url_params.JOB.key: (job_id,)}, provenance_of_jobs([job_id])
    sheets = (
        *_sheets(lambda mode: results_figures.figures(parameters, mode), subject),
        *_sheets(lambda mode: _compared(parameters, mode), subject),
    )
    lines = (*lines, *filter(None, (_lost(job_id), subject)))
    return Content(title, first, lines, sheets)


def _lost(job_id: str) -> str:
    """Return `1 of 24 runs failed, 1 invalid.`; empty if no run was lost."""
    studies = published_data.studies_with_results()
    counts = studies.loc[studies["job_id"] == job_id, ["runs_failed", "runs_completed", "runs_invalid"]]
    failed, completed, invalid = map(int, counts.iloc[0]) if len(counts) else (0, 0, 0)
    lost = lost_words(failed, invalid, failed + completed)
    return lost and f"{lost}."


def _compared(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Return the study's comparison figures; none while there is nothing to compare."""
    try:
        selection = compare_selection.parse(parameters)
        drawn = (compare_figures.figure(key, selection, mode) for key in compare_figures.OF_ALL)
        return [figure for figure in drawn if figure is not None]
    except UserError:
        return []


def _run_of(run_id: str, title: str) -> Content:
    run = _run(run_id)
    if run is None:  # it was removed between two reads
        return Content(title, "This run is no longer there.", (), ())
    parameters = {url_params.RUN.key: (run_id,)}
    subject = provenance_of_view(parameters)
    sheets = (
        *_sheets(lambda _mode: [_numbers(run)], subject),
        *_sheets(lambda mode: run_figures.figures(parameters, mode), subject),
    )
    findings = published_data.run_findings(run_id).iterrows()
    lines = tuple(f"{finding['severity']}: {finding['sentence']}" for _, finding in findings)
    return Content(title, _verdict(run), lines, sheets)


_CONTENT_OF: Mapping[Kind, Callable[[str, str], Content]] = {
    Kind.DASHBOARD: _dashboard,
    Kind.STUDY: _study,
    Kind.RUN: _run_of,
}


def _run(run_id: str) -> pd.Series | None:
    found = published_data.run(run_id)
    return None if found.empty else found.iloc[0]


def _run_title(run: pd.Series) -> str:
    workload = run["workload"] if isinstance(run["workload"], str) else run["category"]
    parts = [part for part in (run["study_name"], run["arm"], workload, run["pattern"]) if isinstance(part, str)]
    return ", ".join(parts) or str(run["run_id"])


def _verdict(run: pd.Series) -> str:
    if run["status"] != "completed":
        return f"This run failed: {run['error']}" if isinstance(run["error"], str) else "This run failed."
    if pd.isna(run["is_valid"]):
        return "This run was not checked."
    return "This run is valid." if run["is_valid"] else "This run is invalid: do not rely on its numbers."


def _numbers(run: pd.Series) -> Figure:
    """Return every known number with its unit."""
    known = [metric for metric in METRICS if pd.api.types.is_scalar(run[metric.name]) and pd.notna(run[metric.name])]
    rows = [{"Number": metric.label, "Value": metric.format_with_unit(run[metric.name])} for metric in known]
    return Figure("numbers", "Numbers", "", (), (), pd.DataFrame(rows, columns=["Number", "Value"]))


def _sheets(draw: Draw, subject: str) -> list[Sheet]:
    """Draw the figures in both modes, without links to other pages. `subject`: the provenance of their numbers."""
    as_of = published_data.published_at()
    return [
        Sheet(About(light.title, light.note, as_of, "", subject), "", "", light, dark, light.is_wide)
        for light, dark in zip(draw("light"), draw("dark"), strict=True)
    ]
