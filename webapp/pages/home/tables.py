"""The data of the Home page, and its tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from jobs.host_report import Finding
from jobs.table import Job
from warehouse.queries.comparing.answers import Headline, headlines
from webapp.shared import published_data
from webapp.shared.cards import BADGES, with_invalid_runs
from webapp.shared.tables import MINUTE, Column, columns
from webapp.shared.text import RunCounts, duration, literal, moment

#: Studies in the table of finished ones.
MAX_ENDED = 6
#: State of a study that was measured in another home: it was never in this queue.
NOT_QUEUED = "elsewhere"
_COLOURS = {state: colour for state, (colour, _) in BADGES.items()} | {"imported": "gray", NOT_QUEUED: "gray"}
ENDED_COLUMNS = columns(
    state=Column("State", width=95, states=_COLOURS),
    study={"width": 140},
    target={"width": 85},
    runs=Column("Runs", width=130),
    open=Column("Open", width=62, link_text="Results"),
    error={"width": 170},
    took=Column("Took", width=75),
    ended=Column("Ended (UTC)", MINUTE, width=120),
)
_ENDED = ("state", "study", "target", "runs", "open", "error", "took", "ended")
_read_headlines = published_data.published_query(1)(headlines)


def title(headline: Headline) -> str:
    """Return the target, its hardware, and its newest study as a link to its results, as Markdown."""
    when, link = moment(headline.measured_at), _results_link(headline.job_id)
    on = literal(headline.hardware or "several kinds of hardware")
    study = f"[{literal(headline.study_name)}]({link})"
    return f"**{literal(headline.target)}** :gray[· {on} ·] {study} :gray[· {when}]"


def ended(jobs: Sequence[Job], studies: pd.DataFrame) -> pd.DataFrame:
    """Return finished studies, newest first: `jobs` of this queue that ended last, and studies from elsewhere.

    `studies`: the frame of `queries.jobs_with_results`, or an empty one.
    """
    elsewhere = studies
    if not studies.empty:
        elsewhere = studies[~(studies["is_in_queue"] | studies["is_hidden"]).astype(bool)].head(
            MAX_ENDED
        )  # sorted, the newest first
        studies = studies[studies["job_id"].isin([job.job_id for job in jobs])]
    by_id = {row["job_id"]: row for row in studies.to_dict("records")}
    rows = [_of_queue(job, by_id.get(job.job_id)) for job in with_invalid_runs(jobs)]
    rows += [_of_elsewhere(row) for row in elsewhere.to_dict("records")]
    table = pd.DataFrame(rows, columns=list(_ENDED))
    table["ended"] = pd.to_datetime(table["ended"], utc=True)
    return table.sort_values("ended", ascending=False, na_position="last", kind="stable").head(MAX_ENDED)


def _of_queue(job: Job, results: Mapping[Hashable, Any] | None) -> dict[str, object]:
    took = (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else None
    return {
        "state": [job.state_word],
        "study": job.name,
        "target": job.study.target,
        "runs": _runs_words(results),
        "took": duration(took),
        "ended": job.finished_at,
        "error": job.cause,
        "open": _results_link(job.job_id) if results else None,
    }


def _of_elsewhere(row: Mapping[Hashable, Any]) -> dict[str, object]:
    return {
        "state": ["imported" if row["origin"] == "imported" else NOT_QUEUED],
        "study": row["study_name"],
        "target": row["target"],
        "runs": _runs_words(row),
        "took": duration(None),
        "ended": row["submitted_at"],
        "error": None,
        "open": _results_link(row["job_id"]),
    }


def _runs_words(results: Mapping[Hashable, Any] | None) -> str:
    """Say how many runs are in the warehouse."""
    return "none" if results is None else run_counts(results).words


def run_counts(row: Mapping[Hashable, Any]) -> RunCounts:
    """Return the counts in a row of `queries.jobs_with_results`, or in its sums."""
    return RunCounts(*(int(row[name]) for name in ("runs_completed", "runs_invalid", "runs_failed")))


def _results_link(job_id: str) -> str:
    return f"results?{urlencode({'job': job_id})}"


def read_headlines() -> list[Headline]:
    """Return the newest headline of each target; none before the first publication."""
    return [] if published_data.publication() is None else _read_headlines()


def verification(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return the findings in Markdown, wrong ones first; without the column of remedies if there are none."""
    ordered = sorted(findings, key=lambda finding: finding.ok)
    rows = [
        (":green[ok]" if one.ok else ":red[**wrong**]", *map(literal, (one.what, one.found, one.remedy)))
        for one in ordered
    ]
    table = pd.DataFrame(rows, columns=["Result", "What", "Found", "What to do"]).set_index("Result")
    return table if any(finding.remedy for finding in findings) else table.drop(columns="What to do")
