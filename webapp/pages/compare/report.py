"""The report of a comparison as files: Markdown, and one picture that it refers to."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from urllib.parse import quote

import duckdb

from lab.advice import report
from lab.advice.answer import Answer
from lab.comparison.surface import sentence
from lab.metrics.catalogue import BY_NAME
from warehouse.queries.comparing import by_group
from warehouse.queries.comparing.answers import metric_answers, provenance, study_answer
from warehouse.queries.comparing.comparisons import StudyComparison
from warehouse.queries.comparing.ratio_tables import arm_tables
from warehouse.queries.comparing.tunings import answered
from webapp.charts.theme import Drafting, arm_styles
from webapp.pages.compare import figures
from webapp.pages.compare.selection import HEAT_ROWS, READINGS, Selection, candidates
from webapp.pages.compare.tables import step_label
from webapp.shared import downloads
from webapp.shared.downloads import About
from webapp.shared.url_params import View

#: The name of the files in the archive that the page offers.
_NAME = "report"


@dataclass(frozen=True)
class Made:
    """When and from what a report is made.

    `arms`: how each drafts, in the study's order; `page`: the page's own address; `forecast_s` estimates the follow-up
    of a job's answer, None if that is unknown.
    """

    arms: Mapping[str, Drafting]
    page: str
    as_of: datetime | None
    forecast_s: Callable[[str, Answer], float | None]


def view(comparison: StudyComparison) -> View:
    """Return the link of the comparison's page."""
    reading = next(words for words, strict in READINGS.items() if strict == comparison.strict)
    return Selection(comparison.jobs[-1], comparison.baseline, BY_NAME[comparison.metric].label, reading).view


def markdown(
    con: duckdb.DuckDBPyConnection, comparison: StudyComparison, made: Made, picture: str | None = None
) -> str:
    """Return the report's text; `picture` is the name of the picture's file beside it."""
    answer, job = study_answer(answered(con, comparison)), comparison.jobs[-1]
    return report.markdown(
        report.Report(
            answer,
            provenance(con, comparison),
            None if picture is None else quote(picture),
            f"{made.page.rstrip('/')}/{view(comparison).link}",
            version("drafthouse"),
            _steps(con, comparison),
            tuple(metric_answers(con, job, strict=comparison.strict)),
            made.forecast_s(job, answer),
        )
    )


def _steps(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> report.Steps | None:
    """Return the section by turn of sessions, or by context for single prompts of several lengths; None for other
    studies.
    """
    job = comparison.jobs[-1]
    for grain, axis in figures.GRAINS.items():
        groups = by_group.by_group(con, job, grain, baseline=comparison.baseline)
        at = [group.turn if grain == "turn" else group.context_tokens for group in groups]
        if len(set(at)) < 2:
            continue
        rows = tuple(
            report.Step(
                group.workload,
                group.pattern,
                step_label(grain, step),
                group.arm,
                group.ratio,
                group.word,
                None if group.length is None else group.length.value,
            )
            for group, step in zip(groups, at, strict=True)
            if step is not None and group.ratio is not None and group.word is not None
        )
        surfaces = by_group.surfaces(con, job, baseline=comparison.baseline)
        said = tuple(f"{arm}: {sentence(each)}" for arm, each in surfaces.items() if len(each.contexts) > 1)
        return report.Steps(f"{axis[0].lower()}{axis[1:]}", BY_NAME["tpot_mean_ms"].label, rows, said) if rows else None
    return None


def picture(con: duckdb.DuckDBPyConnection, comparison: StudyComparison, made: Made) -> bytes | None:
    """Return a PNG of the ratios by concurrency, or else of the map of ratios; None without a ratio."""
    arms = candidates(comparison, [*made.arms, *sorted(candidates(comparison, ()))])
    baseline = comparison.baseline
    styles = arm_styles(dict.fromkeys([*made.arms, *arms, baseline]), baseline, "light", made.arms)
    figure = figures.crossing(comparison, arms, styles, "light")
    if figure is None and comparison.pairs:
        figure = figures.heat(comparison, arms, HEAT_ROWS[0], arm_tables(con, comparison), "light")
    if figure is None:
        return None
    link = f"{made.page.rstrip('/')}/{view(comparison).link}"
    about = About(figure.title, figure.note, made.as_of, link, _subject(con, comparison))
    return downloads.png(figure, about, "light")


def _subject(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> str:
    """Return what the numbers are of, as `webapp.shared.downloads` writes it for pages."""
    found = provenance(con, comparison)
    day = "" if found.began is None else f", {found.began:%Y-%m-%d}"
    parts = [found.target, *found.hardware, *found.engines, f"{found.study or ''}{day}"]
    return " · ".join(part for part in parts if part)


def archive(con: duckdb.DuckDBPyConnection, comparison: StudyComparison, made: Made) -> bytes:
    """Return a ZIP file with the report and the picture."""
    drawn = picture(con, comparison, made)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr(f"{_NAME}.md", markdown(con, comparison, made, None if drawn is None else f"{_NAME}.png"))
        if drawn is not None:
            files.writestr(f"{_NAME}.png", drawn)
    return packed.getvalue()


def file_name(comparison: StudyComparison) -> str:
    """Return the archive's name, with the job and the metric."""
    return About(f"report {comparison.jobs[-1]} {comparison.metric}").file_name("zip")
