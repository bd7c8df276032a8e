"""`drafthouse gate`: is a study worse than the nights of a series? For CI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from xml.sax.saxutils import quoteattr

import duckdb
import typer

from cli.arguments import StudyId, share
from cli.output import print_json, print_literally
from cli.results import results_of
from jobs.series.history import error_of, history
from jobs.series.store import Night
from lab.errors import QueryError
from lab.series.alarm import MEASURES
from lab.series.gate import Gated, Word, against, verdict
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.rows import dicts
from warehouse.queries.series import figures

_STATUS: dict[Word, int] = {"worse": 1, "not worse": 0, "inconclusive": 3}
_SIGNS: dict[Word, str] = {"worse": "❌", "not worse": "✅", "inconclusive": "❔"}
_NIGHTS = "SELECT * FROM nights WHERE series = ? ORDER BY due_at, night_id"


def gate(
    study: StudyId,
    *,
    against_series: Annotated[str, typer.Option("--against", metavar="SERIES", help="The series to compare it with.")],
    limit: Annotated[str, typer.Option(help="The most of its speed-up that it may lose.")] = "5%",
    acceptance_limit: Annotated[str, typer.Option(help="Likewise of its acceptance length.")] = "2%",
    form: Annotated[
        Literal["markdown", "json", "junit"], typer.Option("--format", help="Form of what is printed.")
    ] = "markdown",
) -> None:
    """Compare a study with a series: exit 0 if it is not worse, 1 if it is worse, 3 if that is inconclusive.

    It is worse if its speed-up or its acceptance length is certainly below that of the nights since the last change by
    more than the limit.
    """
    limits = dict(zip(MEASURES, (share(limit), share(acceptance_limit)), strict=True))
    with results_of(study) as con:
        job_id, values, error, nights = _values(con, study, against_series)
    gated = [
        against(past, values[measure.name], error if measure is MEASURES[0] else 0.0, measure, limits[measure])
        for measure in MEASURES
        if (past := history(nights, measure)) or measure is MEASURES[0]
    ]
    word = verdict(gated)
    if form == "json":
        of_measures = [{**vars(each), "measure": each.measure.name} for each in gated]
        print_json({"job": job_id, "series": against_series, "verdict": word, "measures": of_measures})
    else:
        write = _markdown if form == "markdown" else _junit
        print_literally(write(job_id, against_series, word, gated))
    raise SystemExit(_STATUS[word])


def _values(
    con: duckdb.DuckDBPyConnection, study: str, series: str
) -> tuple[str, dict[str, float | None], float, list[Night]]:
    """Return the study's job, its values by measure, the error of its speed-up, and the series' nights."""
    arms = con.execute("SELECT arm FROM series WHERE series = ?", [series]).fetchone()
    if arms is None:
        known = ", ".join(name for (name,) in con.execute("SELECT series FROM series ORDER BY 1").fetchall())
        raise QueryError(f"there is no series {series!r}: the series are {known or 'none'}")
    jobs, comparison = jobs_of(con, study), compare_study(con, study)
    means = arm_means(comparison)
    if len(jobs) > 1 or arms[0] not in means:
        named = ", ".join(jobs) if len(jobs) > 1 else ", ".join(map(repr, means)) or "no arm"
        wanted = "one of the jobs" if len(jobs) > 1 else f"a study with the arm {arms[0]!r} of {series}, not"
        raise QueryError(f"the gate takes {wanted} {named}")
    ratio = means[arms[0]].ratio
    found = figures(con, jobs[0], arms[0], comparison.baseline)
    values = {"speedup": None if ratio is None else ratio.value, "acceptance_length": found["acceptance_length"]}
    error = 0.0 if ratio is None else error_of(ratio.low, ratio.high)
    return jobs[0], values, error, [Night(**row) for row in dicts(con, _NIGHTS, [series])]


def _markdown(job_id: str, series: str, word: Word, gated: Sequence[Gated]) -> str:
    lines = [
        f"### {_SIGNS[word]} {word.capitalize()}: `{job_id}` against the series `{series}`\n",
        "| measure | change | 95 % interval | may lose | nights | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for each in gated:
        interval = "unknown" if each.low is None or each.high is None else f"{each.low:+.1%} to {each.high:+.1%}"
        change = "unknown" if each.change is None else f"{each.change:+.1%}"
        lines.append(
            f"| {each.measure.label} | {change} | {interval} | {each.limit:.1%} | {each.nights} | {each.word} |"
        )
    return "\n".join(lines)


def _junit(job_id: str, series: str, word: Word, gated: Sequence[Gated]) -> str:
    """Return a suite with a test for each measure: worse has failed, inconclusive was skipped."""
    count = {name: sum(each.word == name for each in gated) for name in _STATUS}
    suite = (
        f'<testsuite name={quoteattr(f"drafthouse gate {series}: {word}")} tests="{len(gated)}" '
        f'failures="{count["worse"]}" errors="0" skipped="{count["inconclusive"]}">'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', suite]
    for each in gated:
        what = (
            "unknown" if each.change is None else f"{each.change:+.1%}, limit -{each.limit:.1%}, {each.nights} nights"
        )
        inside = {
            "worse": f"<failure message={quoteattr(what)}/>",
            "inconclusive": f"<skipped message={quoteattr(what)}/>",
        }
        lines.append(
            f"  <testcase classname={quoteattr(job_id)} name={quoteattr(each.measure.label)}>"
            f"{inside.get(each.word, '')}</testcase>"
        )
    return "\n".join([*lines, "</testsuite>"])
