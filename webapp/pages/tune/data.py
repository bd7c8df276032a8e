"""What the Tune page reads: the report of a study that is a tuning, and its command line."""

from __future__ import annotations

import json

import duckdb
import pandas as pd

from jobs import queue
from jobs.engines.command_line import speculation_words
from lab.study import Arm
from lab.tuning.report import Measured, Report
from warehouse.queries.comparing.tunings import tuning_report
from webapp.shared import published_data
from webapp.shared.published_data import published_query
from webapp.shared.tables import columns

RESULT_COLUMNS = columns("concurrency", "verdict", "arm", "k", "ratio", "low", "high", "basis", pinned="concurrency")
TRIED_COLUMNS = columns("concurrency", "arm", "k", "runs", "expected", "fate", pinned="arm")


@published_query()
def tuned(connection: duckdb.DuckDBPyConnection, job_id: str) -> Report | None:
    """The report, or None before the first results. Raises ValueError for a study that is no tuning."""
    return tuning_report(connection, job_id, queue.job(published_data.engine(), job_id).study)


def measured(rows: tuple[Measured, ...]) -> pd.DataFrame:
    """One row per load and arm."""
    return pd.DataFrame(
        [(each.load, each.verdict, each.arm, each.k, each.ratio, each.low, each.high, each.basis) for each in rows],
        columns=list(RESULT_COLUMNS),
    ).sort_values(["concurrency", "arm"])


def tried(found: Report) -> pd.DataFrame:
    """Every setting at every load, with what became of it."""
    return pd.DataFrame(
        [(each.load, each.arm, each.k, each.runs, each.expected, each.fate) for each in found.tried],
        columns=list(TRIED_COLUMNS),
    )


def speedups(found: Report) -> pd.DataFrame:
    """Every setting at every load with what is expected of it and what was measured; no speculation has k = 0."""
    unknown = Measured("", 0, 0, None, None, None, "", "")
    rows = [(each, each.measured or unknown) for each in found.tried if each.expected is not None]
    return pd.DataFrame(
        [
            {
                "load": each.load,
                "arm": each.arm,
                "draft": each.draft,
                "k": each.k,
                "expected": each.expected,
                "at_least": each.at_least,
                "at_most": each.at_most,
                "ratio": measured.ratio,
                "low": measured.low,
                "high": measured.high,
                "runs": each.runs,
                "is_chosen": each.is_chosen,
                "label": "no speculation" if each.k == 0 else f"k = {each.k}",
                "fate": each.fate,
            }
            for each, measured in rows
        ]
    ).astype(dict.fromkeys(("expected", "at_least", "at_most", "ratio", "low", "high"), float))


def command_line(arm: Arm) -> str | None:
    return speculation_words(published_data.settings(), arm)


def as_json(arm: Arm) -> str:
    """The arm's speculation, as a study has it."""
    return json.dumps(arm.speculation.model_dump(mode="json", exclude_defaults=True) if arm.speculation else {})
