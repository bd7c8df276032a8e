"""The report of a tuning, and its tables."""

from __future__ import annotations

import duckdb
import pandas as pd

from jobs import queue
from lab.tuning.report import Measured, Report
from warehouse.queries.comparing.tunings import tuning_report
from webapp.shared import published_data
from webapp.shared.published_data import published_query
from webapp.shared.tables import columns

RESULT_COLUMNS = columns("concurrency", "verdict", "arm", "k", "ratio", "low", "high", "basis", pinned="concurrency")
TRIED_COLUMNS = columns("concurrency", "arm", "k", "runs", "expected", "fate", pinned="arm")


@published_query()
def tuned(connection: duckdb.DuckDBPyConnection, job_id: str) -> Report | None:
    """Return the tuning's report, or None before the first results. Raises ValueError for any other study."""
    return tuning_report(connection, job_id, queue.job(published_data.engine(), job_id).study)


def measured(rows: tuple[Measured, ...]) -> pd.DataFrame:
    """Return a table with one row per load and arm."""
    return pd.DataFrame(
        [(cell.load, cell.verdict, cell.arm, cell.k, cell.ratio, cell.low, cell.high, cell.basis) for cell in rows],
        columns=list(RESULT_COLUMNS),
    ).sort_values(["concurrency", "arm"])


def tried(report: Report) -> pd.DataFrame:
    """Return a table of every setting at every load, with its outcome."""
    return pd.DataFrame(
        [(each.load, each.arm, each.k, each.runs, each.expected, each.fate) for each in report.tried],
        columns=list(TRIED_COLUMNS),
    )


def speedups(report: Report) -> pd.DataFrame:
    """Return expected and measured speed-ups of every setting at every load; no speculation has k = 0."""
    unknown = Measured("", 0, 0, None, None, None, "", "")
    names = ("load", "arm", "draft", "k", "expected", "at_least", "at_most")
    found = [
        {
            **{name: getattr(setting, name) for name in names},
            **{name: getattr(setting.measured or unknown, name) for name in ("ratio", "low", "high")},
            "runs": setting.runs,
            "is_chosen": setting.is_chosen,
            "label": "no speculation" if setting.k == 0 else f"k = {setting.k}",
            "fate": setting.fate,
        }
        for setting in report.tried
        if setting.expected is not None
    ]
    return pd.DataFrame(found).astype(dict.fromkeys((*names[4:], "ratio", "low", "high"), float))
