"""Nights of a series that are imported: jobs whose runs have the label series=NAME, and commit=LABEL.

Nothing can be measured again here. A suspicious night is confirmed by the next imports, whether its commit was measured
again or later ones are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import sqlalchemy as sa

from host.settings import Settings
from jobs.series import judging, store
from jobs.series.store import FINDINGS, SUSPICIOUS, Night, Series
from lab.errors import QueryError
from warehouse.app_db import schema as tables
from warehouse.queries.connect import open_warehouse
from warehouse.queries.series import Measured, compared, imported_jobs

#: A job is a night when no run was added to it for so long: a CI imports a file for each arm.
_COMPLETE_AFTER = timedelta(minutes=2)


def take_up(settings: Settings, database: sa.Engine, series: Series, nights: Sequence[Night], now: datetime) -> None:
    """Store each imported job as a night: its rows in one transaction, then the values of each."""
    with contextlib.closing(open_warehouse(settings.warehouse_file)) as con:
        _store(con, database, series, nights, now)
        if series.paused_at is not None:
            return
        for job_id, label in imported_jobs(con, series.series):
            known = store.nights(database, series.series)
            if all(night.job_id != job_id for night in known) and _is_complete(settings, job_id, now):
                _add(database, series, _values(con, series, job_id, known), known, (job_id, label, now))
                _store(con, database, series, store.nights(database, series.series, judging.MOST_READ), now)


def _is_complete(settings: Settings, job_id: str, now: datetime) -> bool:
    with contextlib.suppress(OSError):  # its bundles are in an object store, or were archived: nothing comes any more
        return now - datetime.fromtimestamp((settings.bundles / job_id).stat().st_mtime, UTC) > _COMPLETE_AFTER
    return True


def _values(
    con: duckdb.DuckDBPyConnection, series: Series, job_id: str, known: Sequence[Night]
) -> Mapping[str, Measured]:
    """Return what each watched arm has in this job, or why it has nothing."""
    try:
        found, why = compared(con, job_id), f"{job_id} has no such arm beside a baseline"
    except QueryError as error:
        found, why = {}, str(error)
    if series.arm is None and found:
        return found
    watched = [series.arm] if series.arm else list(dict.fromkeys(night.arm for night in known)) or ["every arm"]
    return {arm: found.get(arm, Measured({}, why)) for arm in watched}


def _add(
    database: sa.Engine,
    series: Series,
    values: Mapping[str, Measured],
    known: Sequence[Night],
    job: tuple[str, str | None, datetime],
) -> None:
    """Add the rows of a job: of a night, unless its commit is that of a suspicious one, and of re-measurements."""
    job_id, label, now = job
    rows = []
    for arm in values:
        of_job: dict[str, Any] = {"series": series.series, "state": "queued", "arm": arm}
        of_job |= {"job_id": job_id, "label": label}
        nights = [night for night in known if night.arm == arm and night.again_of is None]
        last = nights[-1] if nights and _is_suspicious(nights[-1]) else None
        if last is not None:
            times = 1 + sum(night.again_of == last.night_id for night in known)
            again = {"night_id": f"{last.night_id} #{times}", "again_of": last.night_id, "due_at": last.due_at}
            rows.append(of_job | again)
        if last is None or label is None or label != last.label:
            own = {"night_id": f"{series.series} {job_id} {arm}", "again_of": None, "due_at": now}
            rows.append(of_job | own)
    with contextlib.suppress(sa.exc.IntegrityError), database.begin() as connection:  # another process has added them
        connection.execute(tables.nights.insert(), rows)


def _is_suspicious(night: Night) -> bool:
    return SUSPICIOUS in (getattr(night, column) for column in FINDINGS.values())


def _store(
    con: duckdb.DuckDBPyConnection, database: sa.Engine, series: Series, nights: Sequence[Night], now: datetime
) -> None:
    """Store the values of the rows that wait for them, re-measurements first: what follows is judged by them."""
    for night in sorted(nights, key=lambda night: (night.due_at, night.again_of is None)):
        if night.state == "queued" and night.job_id is not None:
            found = _values(con, series, night.job_id, nights).get(night.arm, Measured({}, "its runs were removed"))
            judging.store_values(database, series, night, found, now)
