"""What happens to series by themselves: nights are queued, their values stored once, suspicious ones measured again,
and alarms raised.

Each step is one transaction that another process, or the same one after a kill, finds done: a night is claimed by
inserting its row in the transaction that queues its job.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from access.accounts import role_now
from host.settings import Settings
from jobs import queue
from jobs.engines.capabilities import Capabilities, all_capabilities
from jobs.fleet.worker_registry import known_engines
from jobs.series import imported, judging, notify, store
from jobs.series.judging import MOST_READ
from jobs.series.store import FINDINGS, NEWEST, SUSPICIOUS, Night, Series
from jobs.table import FINISHED
from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from lab.series.alarm import MOST_AGAIN
from lab.study import Study
from warehouse.app_db import schema as tables
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, database_words, reading
from warehouse.queries.connect import open_warehouse
from warehouse.queries.series import Measured, measured

_EVERY_S = 15.0
#: A night is not queued any more when it is later than this, or than half of the time to the next one; and it has no
#: value if its job's verdict takes so long.
_LATEST = timedelta(hours=6)
#: An ended job without any run has no verdict: it has failed when its bundles could have been read for so long.
_READ_WITHIN = timedelta(minutes=2)
_AGAIN_PRIORITY = 1000
_log = logging.getLogger("drafthouse.series")


@dataclass(frozen=True)
class _Due:
    """A night that is due, or a re-measurement of one; `again_of` then has its rows, in the order of the arms."""

    series: Series
    at: datetime
    again_of: Sequence[str] = ()
    times: int = 0

    def rows(self, state: store.State, **others: object) -> list[dict[str, Any]]:
        """Return the row of each arm."""
        arms = self.series.arms
        begin = f"{self.series.series} {self.at:%Y-%m-%dT%H:%M:%SZ}"
        ids = [f"{begin} {arm}" for arm in arms] if self.series.arm is None and len(arms) > 1 else [begin] * len(arms)
        of_night = {"series": self.series.series, "due_at": self.at, "state": state, "again_of": None} | others
        if self.again_of:
            again = [{"night_id": f"{night} #{self.times}", "again_of": night} for night in self.again_of]
        else:
            again = [{"night_id": night} for night in ids]
        return [of_night | own | {"arm": arm} for own, arm in zip(again, arms, strict=True)]


def run(settings: Settings, stop: threading.Event) -> None:
    """Tend the series until `stop` is set."""
    database: sa.Engine | None = None
    while not stop.wait(_EVERY_S):
        try:
            database = database or app_engine(settings.app_database_url)
            tend(settings, database, datetime.now(UTC))
        except DATABASE_ERRORS as error:
            _log.warning("series wait for the app database: %s", database_words(error))
        except UserError as error:
            _log.warning("series wait: %s", error)
        except Exception:  # noqa: BLE001 - whatever it is: tomorrow's night must not depend on it
            _log.exception("series could not be tended; trying again")
    if database is not None:
        database.dispose()


def tend(settings: Settings, database: sa.Engine, now: datetime) -> None:
    """Bring every series up to date, once: take up results, measure suspicious nights again, queue what is due."""
    for series in store.all_series(database):
        nights = _recent(database, series)
        if series.is_imported:
            imported.take_up(settings, database, series, nights, now)
        else:
            if any(night.state == "queued" for night in nights):
                _take_up(settings, database, series, nights, now)
                nights = _recent(database, series)
            _measure_again(settings, database, series, nights)
            if series.paused_at is None:
                _queue_due(settings, database, series, now)
        judging.raise_without_data(database, series, nights, now)
    notify.deliver(settings, database, now)


def _recent(database: sa.Engine, series: Series) -> list[Night]:
    return store.nights(database, series.series, MOST_READ)


def _queue_due(settings: Settings, database: sa.Engine, series: Series, now: datetime) -> None:
    nights = _recent(database, series)
    known = max([series.due_since, *(night.due_at for night in nights if night.again_of is None)])
    moments = series.timetable.due(known, now)
    for moment in moments:
        due = _Due(series, moment)
        running = next((night.job_id for night in nights if night.state == "queued"), None)
        if moment != moments[-1] or now - moment > min(series.timetable.period / 2, _LATEST):
            _add(database, due, "missed", "nobody queued it: the page did not run")
        elif running is not None:
            _add(database, due, "skipped", f"{running} of an earlier night still runs")
        else:
            _queue(settings, database, due, series.priority)


def _queue(settings: Settings, database: sa.Engine, due: _Due, priority: int) -> None:
    """Queue a night and store its rows in one transaction; a night that cannot be queued has failed."""

    def claim(connection: sa.Connection, job_id: str) -> None:
        connection.execute(tables.nights.insert(), due.rows("queued", job_id=job_id))

    try:
        actor = _owner(database, due.series)
        allowed = priority if roles.may(actor, Change.ORDER) else min(priority, 0)
        queue.submit(settings, _study(settings, database, due.series), allowed, actor=actor, within=claim)
    except sa.exc.IntegrityError:
        claimed = {night.night_id for night in _recent(database, due.series)}
        if due.rows("queued")[0]["night_id"] not in claimed:
            raise  # otherwise another process has claimed it
    except UserError as error:
        _add(database, due, "failed", str(error))


def _owner(database: sa.Engine, series: Series) -> Actor:
    role = role_now(database, series.owner)
    if role is None:
        raise UserError(f"{series.owner}, who owns the series, is disabled: add the series again under another name")
    return Actor(series.owner, role, "command")


def _study(settings: Settings, database: sa.Engine, series: Series) -> Study:
    """Return the study of tonight: its arms of the tagged kind on the newest engine of this kind that a host has."""
    study = series.content
    if series.engine is None:
        return study
    kind = series.engine.removesuffix(NEWEST)
    known = known_engines(database) or all_capabilities(settings)
    of_kind = [engine for engine in known if engine.kind == kind and engine.version is not None]
    if not of_kind:
        raise UserError(f"no engine of the kind {kind!r} with a known version is installed")
    newest, names = max(of_kind, key=_version).engine, {engine.engine for engine in known if engine.kind == kind}
    arms = [arm.model_copy(update={"engine": newest}) if arm.engine in names else arm for arm in study.arms]
    return study.model_copy(update={"arms": tuple(arms)})


def _version(engine: Capabilities) -> tuple[tuple[int, ...], bool]:
    """Return what orders versions: the numbers of the release, and whether it is no candidate for it."""
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", engine.version or "")
    release = tuple(map(int, numbers[1].split("."))) if numbers else ()
    return release, re.search(r"\d\.?(a|b|rc|dev)\d", engine.version or "") is None


def _add(database: sa.Engine, due: _Due, state: store.State, note: str) -> None:
    """Add a night that ends as it begins, unless another process has it."""
    with contextlib.suppress(sa.exc.IntegrityError), database.begin() as connection:
        connection.execute(tables.nights.insert(), due.rows(state, note=note))


def _take_up(settings: Settings, database: sa.Engine, series: Series, nights: Sequence[Night], now: datetime) -> None:
    """Store what the nights whose jobs have ended came to."""
    for night in nights:
        if night.state != "queued" or night.job_id is None:
            continue
        with reading(database).connect() as connection:
            query = sa.select(tables.jobs).where(tables.jobs.c.job_id == night.job_id)
            job = connection.execute(query).mappings().one()
        if job["state"] not in FINISHED:
            continue
        ended_at = job["finished_at"] or now
        if job["state"] != "done":
            judging.end(database, night, state="failed", note=job["error"] or f"its job was {job['state']}")
        elif (found := _measured(settings, series, job, night.arm)) is not None:
            judging.store_values(database, series, night, found, now)
        elif now - ended_at > _READ_WITHIN and not (settings.bundles / night.job_id).is_dir():
            judging.end(database, night, state="failed", note="its job ended without any run")
        elif now - ended_at > _LATEST:
            judging.end(database, night, state="invalid", note="no verdict on its job was stored in time")


def _measured(settings: Settings, series: Series, job: sa.RowMapping, arm: str) -> Measured | None:
    study = series.content
    arms, cells = (arm, study.baseline.name), len(study.workloads) * len(study.loads)
    with contextlib.closing(open_warehouse(settings.warehouse_file)) as con:
        return measured(con, job["job_id"], job["tries"], arms, cells)


def _measure_again(settings: Settings, database: sa.Engine, series: Series, nights: Sequence[Night]) -> None:
    """Queue the next re-measurement of a suspicious night, or give up on one whose re-measurements gave no value."""
    of_moments: dict[datetime, list[Night]] = {}
    for night in nights:
        if night.again_of is None:
            of_moments.setdefault(night.due_at, []).append(night)
    for at, arms in of_moments.items():
        again = [each for each in nights if each.due_at == at and each.again_of is not None]
        suspicious = [night for night in arms if SUSPICIOUS in (getattr(night, column) for column in FINDINGS.values())]
        if not suspicious or any(each.state == "queued" for each in (*arms, *again)):
            continue
        times = len(again) // len(arms)
        if times < MOST_AGAIN:
            ids = {night.arm: night.night_id for night in arms}
            due = _Due(series, at, [ids[arm] for arm in series.arms], times + 1)
            _queue(settings, database, due, max(series.priority, _AGAIN_PRIORITY))
            continue
        for night in suspicious:
            judging.give_up(database, night)
