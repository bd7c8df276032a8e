"""`drafthouse gate`: is a study worse than the nights of a series? For CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from lab.metrics.number_format import percentage
from lab.series.alarm import MEASURES, Measure
from lab.series.gate import Gated, Word, against, verdict
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.rows import dicts
from warehouse.queries.series import Measured, compared

_STATUS: dict[Word, int] = {"worse": 1, "not worse": 0, "inconclusive": 3}
_SIGNS: dict[Word, str] = {"worse": "❌", "not worse": "✅", "inconclusive": "❔"}
_NIGHTS = "SELECT * FROM nights WHERE series = ? ORDER BY due_at, night_id"


def gate(
    study: StudyId,
    *,
    against_series: Annotated[str, typer.Option("--against", metavar="SERIES", help="The series to compare it with.")],
    limit: Annotated[str, typer.Option(help="Speed-up that it may lose.")] = "5%",
    acceptance_limit: Annotated[str, typer.Option(help="Acceptance length that it may lose.")] = "2%",
    form: Annotated[
        Literal["markdown", "json", "junit"], typer.Option("--format", help="Form of what is printed.")
    ] = "markdown",
) -> None:
    """Compare a study with a series: exit 0 if it is not worse, 1 if it is worse, 3 if that is inconclusive.

    It is worse if the speed-up or the acceptance length of a watched arm is certainly below that of the nights since
    the last change by more than the limit.
    """
    limits = dict(zip(MEASURES, (share(limit), share(acceptance_limit)), strict=True))
    with results_of(study) as con:
        job_id, values, nights = _values(con, study, against_series)
    gated = _gated(values, nights, limits)
    word = verdict([each for _, each in gated])
    if form == "json":
        of_measures = [{**vars(each), "measure": each.measure.name, "arm": arm} for arm, each in gated]
        print_json({"job": job_id, "series": against_series, "verdict": word, "measures": of_measures})
    else:
        write = _markdown if form == "markdown" else _junit
        print_literally(write(job_id, against_series, word, gated))
    raise SystemExit(_STATUS[word])


def _values(con: duckdb.DuckDBPyConnection, study: str, series: str) -> tuple[str, dict[str, Measured], list[Night]]:
    """Return the study's job, what the arms of the series have in it, and the nights of the series."""
    if con.execute("SELECT 1 FROM series WHERE series = ?", [series]).fetchone() is None:
        known = ", ".join(name for (name,) in con.execute("SELECT series FROM series ORDER BY 1").fetchall())
        raise QueryError(f"there is no series {series!r}: the series are {known or 'none'}")
    jobs = jobs_of(con, study)
    if len(jobs) > 1:
        raise QueryError(f"the gate takes one of the jobs {', '.join(jobs)}")
    nights = [Night(**row) for row in dicts(con, _NIGHTS, [series])]
    found, watched = compared(con, jobs[0]), dict.fromkeys(night.arm for night in nights)
    if lacking := [arm for arm in watched if arm not in found]:
        named = ", ".join(map(repr, lacking))
        raise QueryError(f"{series} watches {named}, and {jobs[0]} compares {', '.join(map(repr, found)) or 'no arm'}")
    without = Measured(dict.fromkeys(("speedup", "low", "high", "acceptance_length")))
    return jobs[0], {arm: found[arm] if found[arm].values else without for arm in watched or found}, nights


def _gated(
    values: Mapping[str, Measured], nights: Sequence[Night], limits: Mapping[Measure, float]
) -> list[tuple[str, Gated]]:
    """Compare each arm by each measure with its nights."""
    gated = []
    for arm, found in values.items():
        of_arm = [night for night in nights if night.arm == arm]
        errors = (error_of(found.values["low"], found.values["high"]), 0.0)
        for measure, error in zip(MEASURES, errors, strict=True):
            past = history(of_arm, measure)
            if past or measure is MEASURES[0]:
                gated.append((arm, against(past, found.values[measure.name], error, measure, limits[measure])))
    return gated


def _markdown(job_id: str, series: str, word: Word, gated: Sequence[tuple[str, Gated]]) -> str:
    lines = [
        f"### {_SIGNS[word]} {word.capitalize()}: `{job_id}` against the series `{series}`\n",
        "| arm | measure | change | 95 % interval | may lose | nights | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, each in gated:
        ends = [percentage(end, 1, sign=True) for end in (each.low, each.high) if end is not None]
        interval = " to ".join(ends) if len(ends) == 2 else "unknown"
        change = "unknown" if each.change is None else percentage(each.change, 1, sign=True)
        lines.append(
            f"| {arm.replace('|', chr(92) + '|')} | {each.measure.label} | {change} | {interval} "
            f"| {percentage(each.limit, 1)} | {each.nights} | {each.word} |"
        )
    return "\n".join(lines)


def _junit(job_id: str, series: str, word: Word, gated: Sequence[tuple[str, Gated]]) -> str:
    """Return a suite with a test for each arm and measure: worse has failed, inconclusive was skipped."""
    count = {name: sum(each.word == name for _, each in gated) for name in _STATUS}
    suite = (
        f'<testsuite name={quoteattr(f"drafthouse gate {series}: {word}")} tests="{len(gated)}" '
        f'failures="{count["worse"]}" errors="0" skipped="{count["inconclusive"]}">'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', suite]
    for arm, each in gated:
        within = f"limit -{percentage(each.limit, 1)}, {each.nights} nights"
        what = "unknown" if each.change is None else f"{percentage(each.change, 1, sign=True)}, {within}"
        inside = {
            "worse": f"<failure message={quoteattr(what)}/>",
            "inconclusive": f"<skipped message={quoteattr(what)}/>",
        }
        lines.append(
            f"  <testcase classname={quoteattr(job_id)} name={quoteattr(f'{arm}: {each.measure.label}')}>"
            f"{inside.get(each.word, '')}</testcase>"
        )
    return "\n".join([*lines, "</testsuite>"])
