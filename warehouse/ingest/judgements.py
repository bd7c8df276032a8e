"""The verdicts on jobs that have ended: computed once, written beside the bundles, and their rows in the master."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import duckdb

from lab.errors import BundleError
from warehouse.bundles.judgements import (
    Judgement,
    StoredMetric,
    StoredVerdict,
    judgements_folder,
    read_judgement,
    stored_ids,
    write_judgement,
)
from warehouse.ingest.master import Tables, insert, transaction
from warehouse.queries.rows import Row
from warehouse.schema.column import rows
from warehouse.schema.judgement_columns import JUDGED_ARM_COLUMNS, JUDGED_METRIC_COLUMNS, JUDGEMENT_COLUMNS

_TABLES = ("judgements", "judged_metrics", "judged_arms")
#: Jobs that ended with runs of their own, and have no judgement since.
_ENDED = """
    SELECT job_id, tries, finished_at FROM jobs
    WHERE state IN ('done', 'failed', 'cancelled') AND finished_at IS NOT NULL
        AND job_id IN (SELECT job_id FROM runs WHERE origin = 'measured')
        AND (job_id, tries) NOT IN (SELECT (job_id, tries) FROM judgements WHERE cause = 'ended')
    ORDER BY finished_at, job_id
"""


def ended_jobs(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Return job_id, tries and finished_at of the jobs to judge."""
    found = connection.execute(_ENDED).fetchall()
    return [dict(zip(("job_id", "tries", "finished_at"), row, strict=True)) for row in found]


def judge_ended_job(connection: duckdb.DuckDBPyConnection, job: Row) -> Judgement:
    from warehouse.queries.comparing.judging import judge_ended  # noqa: PLC0415 - SciPy, only when a job has ended

    connection.execute("SET TimeZone = 'UTC'")  # prices are those of a day
    return judge_ended(connection, job["job_id"], job["tries"], job["finished_at"])


def store_judgement(connection: duckdb.DuckDBPyConnection, bundles: Path, judgement: Judgement) -> None:
    """Write the verdicts to their file unless it exists, then the file's content to the master.

    Safe to repeat after being killed anywhere. Raises OSError if the file cannot be written, BundleError if the one
    that is there cannot be read.
    """
    write_judgement(bundles, judgement)
    add_judgement(connection, read_judgement(bundles, judgement.judgement_id))


def modified_ns(bundles: Path) -> int:
    """Return when a judgement was last written; 0 before the first."""
    folder = judgements_folder(bundles)
    return folder.stat().st_mtime_ns if folder.is_dir() else 0


def read_stored(connection: duckdb.DuckDBPyConnection, bundles: Path) -> tuple[int, int, list[BundleError]]:
    """Make the rows of judgements those of their files. Return how many were added and removed, and the errors of those
    that cannot be read.
    """
    there, stored = stored_ids(bundles), connection.execute("SELECT judgement_id FROM judgements").fetchall()
    known, errors, added = {judgement_id for (judgement_id,) in stored}, list[BundleError](), 0
    _forget(connection, gone := known - set(there))
    for judgement_id in there:
        if judgement_id not in known:
            try:
                add_judgement(connection, read_judgement(bundles, judgement_id))
                added += 1
            except BundleError as error:
                errors.append(error)
    return added, len(gone), errors


def add_judgement(connection: duckdb.DuckDBPyConnection, judgement: Judgement) -> None:
    with transaction(connection):
        insert(connection, _rows(judgement))


def _forget(connection: duckdb.DuckDBPyConnection, judgement_ids: Collection[str]) -> None:
    if judgement_ids:
        with transaction(connection):
            for name in _TABLES:
                query = f"DELETE FROM {name} WHERE judgement_id IN (SELECT unnest(?))"  # noqa: S608 - names are ours
                connection.execute(query, [sorted(judgement_ids)])


def _rows(judgement: Judgement) -> Tables:
    own = {"judgement_id": judgement.judgement_id}
    arms = "[" + ", ".join(arm.model_dump_json() for arm in judgement.arms) + "]"
    about = judgement.model_dump(exclude={"arms", "metrics"}) | own | {"arms_json": arms}
    metrics = [vars(metric) | own | {"answer_json": metric.model_dump_json()} for metric in judgement.metrics]
    judged = [own | row for metric in judgement.metrics for row in _arm_rows(judgement, metric)]
    return {
        "judgements": rows(JUDGEMENT_COLUMNS, [about]),
        "judged_metrics": rows(JUDGED_METRIC_COLUMNS, metrics),
        "judged_arms": rows(JUDGED_ARM_COLUMNS, judged),
    }


def _arm_rows(judgement: Judgement, metric: StoredMetric) -> Iterator[Row]:
    """Yield a row per reading of each pair, and of each arm over its cells."""
    for pair in metric.pairs:
        arm = judgement.arms[pair.candidate]
        cell = {"workload": arm.workload, "load": arm.pattern, "concurrency": arm.concurrency}
        yield from _readings(pair, {"scope": "cell", "metric": metric.metric, "arm": arm.arm, **cell})
    for mean in metric.means:
        cell = dict.fromkeys(("workload", "load", "concurrency"))
        yield from _readings(mean, {"scope": "overall", "metric": metric.metric, "arm": mean.arm, **cell})


def _readings(judged: StoredVerdict, about: Row) -> Iterator[Row]:
    """Yield a row per reading, with the interval that goes with it, as `Judged.ratio`."""
    for reading, verdict in (("usual", judged.usual), ("strict", judged.strict)):
        ratio: dict[str, Any] = verdict["interval"] or judged.comparison["ratio"] or {}
        bounds = {"ratio": ratio.get("value"), "low": ratio.get("low"), "high": ratio.get("high")}
        yield {**about, **bounds, "reading": reading, "verdict": verdict["word"], "basis": judged.comparison["basis"]}
