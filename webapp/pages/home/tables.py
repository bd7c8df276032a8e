"""What the Home page reads from the warehouse, and its tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from jobs.table import FINISHED, Job
from lab.comparison.effect import Interval
from warehouse.queries.comparing import headlines as queries
from warehouse.queries.comparing.headlines import Headline
from webapp.shared import published_data
from webapp.shared.text import duration, number
from webapp.shared.verdict_tables import SIGNS

#: Studies in the table of finished ones.
MAX_ENDED = 6
#: State of a study whose runs were imported: it was never in this queue.
NOT_QUEUED = "imported"
_ENDED = ("state", "study", "target", "runs", "took", "ended", "open", "error")
_read_headlines = published_data.published_query(1)(queries.headlines)


def headlines(found: Sequence[Headline]) -> pd.DataFrame:
    """One row per target."""
    return pd.DataFrame([_headline(each) for each in found])


def _headline(each: Headline) -> dict[str, object]:
    return {
        "target": each.target,
        "arm": each.arm,
        "ratio": each.ratio.value,
        "verdict": SIGNS[each.verdict],
        "interval": _interval_words(each.ratio),
        "workload": each.cell.workload,
        "concurrency": each.cell.concurrency,
        "cost": "price unknown" if each.cost is None else f"{number(each.cost)} {each.currency}",
        "open": _results_link(each.job_id),
        "output_tok_per_s": each.output_tok_per_s,
        "repeats": each.repeats,
        "cells": each.cells,
        "hardware": each.hardware,
        "measured": each.measured_at,
    }


def headline_config() -> dict[str, Any]:
    numbers, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "target": text("Target", pinned=True, width=90),
        "arm": text("Best arm", width=112),
        "ratio": numbers("Speed-up", format="%.2f×", width=72, help="Output throughput over the baseline's, mean"),
        "verdict": text(
            "Verdict", width=116, help="Strict: with 95 % confidence no verdict of the whole study is false (Holm)"
        ),
        "interval": text(
            "95 % interval", width=106, help="Of this cell alone; the best of many cells is also the luckiest"
        ),
        "workload": text("Workload", width=122),
        "concurrency": numbers("Concurrency", format="%d", width=86),
        "cost": text(
            "Cost per 10⁶ tokens", width=104, help="Output tokens, at the study's own price or that of the price book"
        ),
        "open": st.column_config.LinkColumn("Study", display_text="Results", width=64),
        "output_tok_per_s": numbers("Output (tok/s)", format="%,.1f"),
        "repeats": numbers("Repeats", format="%d", width="small"),
        "cells": numbers("Best of cells", format="%d", help="Number of arms × workloads × loads compared"),
        "hardware": text("Hardware"),
        "measured": st.column_config.DatetimeColumn("Measured (UTC)", format="YYYY-MM-DD HH:mm"),
    }


def _interval_words(ratio: Interval) -> str:
    return "none: one repeat" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f} – {ratio.high:.2f}×"


def ended(jobs: Sequence[Job], studies: pd.DataFrame) -> pd.DataFrame:
    """Finished studies, newest first: those of this queue, and imported ones.

    `studies`: the frame of `queries.jobs_with_results`, or an empty one.
    """
    known = {job.job_id for job in jobs}
    by_id = {row["job_id"]: row for row in studies.to_dict("records")}
    rows = [_of_queue(job, by_id.get(job.job_id)) for job in jobs if job.state in FINISHED]
    rows += [_of_elsewhere(row) for job_id, row in by_id.items() if job_id not in known]
    found = pd.DataFrame(rows, columns=list(_ENDED))
    found["ended"] = pd.to_datetime(found["ended"], utc=True)
    return found.sort_values("ended", ascending=False, na_position="last", kind="stable").head(MAX_ENDED)


def _of_queue(job: Job, results: Mapping[Hashable, Any] | None) -> dict[str, object]:
    took = (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else None
    return {
        "state": [job.state],
        "study": job.name,
        "target": job.study.target,
        "runs": _runs_words(results),
        "took": duration(took),
        "ended": job.finished_at,
        "error": job.error.splitlines()[0] if job.error else None,
        "open": _results_link(job.job_id) if results else None,
    }


def _of_elsewhere(row: Mapping[Hashable, Any]) -> dict[str, object]:
    return {
        "state": [NOT_QUEUED],
        "study": row["study_name"],
        "target": row["target"],
        "runs": _runs_words(row),
        "took": duration(None),
        "ended": row["submitted_at"],
        "error": None,
        "open": _results_link(row["job_id"]),
    }


def _runs_words(results: Mapping[Hashable, Any] | None) -> str:
    """The number of runs in the warehouse, in words."""
    if results is None:
        return "none"
    completed, failed = int(results["runs_completed"]), int(results["runs_failed"])
    return f"{completed} of {completed + failed}, {failed} failed" if failed else f"{completed}"


def ended_config() -> dict[str, Any]:
    text = st.column_config.TextColumn
    states, colours = ["done", "failed", "cancelled", NOT_QUEUED], ["green", "red", "orange", "gray"]
    return {
        "state": st.column_config.MultiselectColumn("State", options=states, color=colours, width=105),
        "study": text("Study", width=175),
        "target": text("Target", width=125),
        "runs": text("Runs", width=110),
        "took": text("Took", width=85),
        "ended": st.column_config.DatetimeColumn("Ended (UTC)", format="YYYY-MM-DD HH:mm", width=130),
        "error": text("Error", width="medium"),
        "open": st.column_config.LinkColumn("Open", display_text="Results", width=80),
    }


def _results_link(job_id: str) -> str:
    return f"results?{urlencode({'job': job_id})}"


def read_headlines() -> list[Headline]:
    """One of each target, the newest first; none before the first publication."""
    return [] if published_data.publication() is None else _read_headlines()


def read_studies() -> pd.DataFrame:
    """As `published_data.studies_with_results`, but empty before the first publication."""
    return pd.DataFrame() if published_data.publication() is None else published_data.studies_with_results()
