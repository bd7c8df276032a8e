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
from jobs.series import notify, store
from jobs.series.history import judge
from jobs.series.store import FINDINGS, NEWEST, Night, Series
from jobs.table import FINISHED
from jobs.worker_registry import known_engines
from lab import roles
from lab.errors import UserError
from lab.metrics.number_format import times
from lab.roles import Actor, Change
from lab.series.alarm import MEASURES, MOST_AGAIN, MOST_NIGHTS, Finding, Measure
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
#: Successive nights without a value that raise an alarm.
MOST_WITHOUT = 3
_AGAIN_PRIORITY = 1000
#: The newest nights and re-measurements that are read: more than the rule looks back.
_MOST_READ = MOST_NIGHTS * 4
_log = logging.getLogger("drafthouse.series")


@dataclass(frozen=True)
class _Due:
    """A night that is due, or with `again_of` a re-measurement of one."""

    series: Series
    night_id: str
    at: datetime
    again_of: str | None = None

    def row(self, state: store.State, **others: object) -> dict[str, Any]:
        own = {"night_id": self.night_id, "series": self.series.series, "due_at": self.at, "again_of": self.again_of}
        return own | {"state": state} | others


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
    """Do once what is to be done now."""
    for series in store.all_series(database):
        nights = _recent(database, series)
        if any(night.state == "queued" for night in nights):
            _take_up(settings, database, series, nights, now)
            nights = _recent(database, series)
        _measure_again(settings, database, series, nights)
        if series.paused_at is None:
            _queue_due(settings, database, series, now)
        _raise_without_data(database, series, nights, now)
    notify.deliver(settings, database, now)


def _recent(database: sa.Engine, series: Series) -> list[Night]:
    return store.nights(database, series.series, _MOST_READ)


def without_data(nights: Sequence[Night]) -> list[Night]:
    """Return the last nights that ended without a value."""
    ended = [night for night in nights if night.again_of is None and night.state != "queued"]
    last = max((number for number, night in enumerate(ended, 1) if night.state == "measured"), default=0)
    return ended[last:]


def _queue_due(settings: Settings, database: sa.Engine, series: Series, now: datetime) -> None:
    nights = _recent(database, series)
    known = max([series.due_since, *(night.due_at for night in nights if night.again_of is None)])
    moments = series.timetable.due(known, now)
    for moment in moments:
        due = _Due(series, f"{series.series} {moment:%Y-%m-%dT%H:%M:%SZ}", moment)
        running = next((night.job_id for night in nights if night.state == "queued"), None)
        if moment != moments[-1] or now - moment > min(series.timetable.period / 2, _LATEST):
            _add(database, due, "missed", "nobody queued it: the page did not run")
        elif running is not None:
            _add(database, due, "skipped", f"{running} of an earlier night still runs")
        else:
            _queue(settings, database, due, series.priority)


def _queue(settings: Settings, database: sa.Engine, due: _Due, priority: int) -> None:
    """Queue a night and store its row in one transaction; a night that cannot be queued has failed."""

    def claim(connection: sa.Connection, job_id: str) -> None:
        connection.execute(tables.nights.insert().values(due.row("queued", job_id=job_id)))

    try:
        actor = _owner(database, due.series)
        allowed = priority if roles.may(actor, Change.ORDER) else min(priority, 0)
        queue.submit(settings, _study(settings, database, due.series), allowed, actor=actor, within=claim)
    except sa.exc.IntegrityError:
        if not any(night.night_id == due.night_id for night in _recent(database, due.series)):
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
        connection.execute(tables.nights.insert().values(due.row(state, note=note)))


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
            _end(database, night, {"state": "failed", "note": job["error"] or f"its job was {job['state']}"})
        elif (found := _measured(settings, series, job)) is not None:
            _store(database, series, night, found, now)
        elif now - ended_at > _READ_WITHIN and not _has_runs(settings, night.job_id):
            _end(database, night, {"state": "failed", "note": "its job ended without any run"})
        elif now - ended_at > _LATEST:
            _end(database, night, {"state": "invalid", "note": "no verdict on its job was stored in time"})


def _measured(settings: Settings, series: Series, job: sa.RowMapping) -> Measured | None:
    study = series.content
    arms, cells = (series.arm, study.baseline.name), len(study.workloads) * len(study.loads)
    with contextlib.closing(open_warehouse(settings.warehouse_file)) as con:
        return measured(con, job["job_id"], job["tries"], arms, cells)


def _has_runs(settings: Settings, job_id: str) -> bool:
    return (settings.bundles / job_id).is_dir()


def _end(database: sa.Engine, night: Night, values: dict[str, Any]) -> None:
    with database.begin() as connection:
        _update(connection, night.night_id, values)


def _update(connection: sa.Connection, night_id: str, values: dict[str, Any]) -> bool:
    """Store the values of a night that still waits for them; False if it has them already."""
    table = tables.nights
    where = (table.c.night_id == night_id, table.c.state == "queued")
    return connection.execute(table.update().where(*where).values(values)).rowcount == 1


def _store(database: sa.Engine, series: Series, night: Night, found: Measured, now: datetime) -> None:
    """Store the night's values once, with what the rule finds in it, or in the night that it measures again."""
    if found.why_invalid is not None:
        _end(database, night, {"state": "invalid", "note": found.why_invalid})
        return
    values = {"state": "measured"} | found.values
    nights = [
        Night(**vars(each) | values) if each.night_id == night.night_id else each for each in _recent(database, series)
    ]
    judged = night.again_of or night.night_id
    findings = {measure: judge(nights, judged, measure) for measure in MEASURES}
    of_night = next(each for each in nights if each.night_id == judged)
    changed: dict[str, Any] = {}
    for measure, finding in findings.items():
        if finding is not None and getattr(of_night, FINDINGS[measure.name]) in (None, "suspicious"):
            changed[FINDINGS[measure.name]] = finding.word
            if measure is MEASURES[0] and night.again_of is None:
                changed |= {"predicted_low": finding.low, "predicted_high": finding.high}
    with database.begin() as connection:
        if not _update(connection, night.night_id, values):
            return
        if changed:
            table = tables.nights
            connection.execute(table.update().where(table.c.night_id == judged).values(changed))
        for measure, finding in findings.items():
            if finding is not None and finding.is_change and FINDINGS[measure.name] in changed:
                _raise(
                    connection,
                    now,
                    series=series.series,
                    night_id=judged,
                    kind=finding.word,
                    measure=measure.name,
                    sentence=_sentence(series, measure, finding),
                )


def _sentence(series: Series, measure: Measure, finding: Finding) -> str:
    """Say `speed-up of draft fell by 5.1 % in series nightly: ...`."""
    change = abs(finding.change or 0.0)
    verb = "fell" if finding.word == "fall" else "rose"
    over = "" if finding.window == 1 else f", as the mean of {finding.window} nights"
    expected = (
        ""
        if measure is not MEASURES[0]
        else (f"; the nights before predicted {times(finding.low)} to {times(finding.high)}")
    )
    return f"the {measure.label} of {series.arm!r} {verb} by {change:.1%}{over}, confirmed by measuring again{expected}"


def _measure_again(settings: Settings, database: sa.Engine, series: Series, nights: Sequence[Night]) -> None:
    """Queue the next re-measurement of a suspicious night, or give up on one whose re-measurements gave no value."""
    for night in nights:
        open_ = [column for column in FINDINGS.values() if getattr(night, column) == "suspicious"]
        again = [each for each in nights if each.again_of == night.night_id]
        if not open_ or any(each.state == "queued" for each in again):
            continue
        if len(again) < MOST_AGAIN:
            due = _Due(series, f"{night.night_id} #{len(again) + 1}", night.due_at, night.night_id)
            _queue(settings, database, due, max(series.priority, _AGAIN_PRIORITY))
            continue
        with database.begin() as connection:
            given_up = dict.fromkeys(open_, "outlier") | {"note": "it could not be confirmed: measuring again failed"}
            where = tables.nights.c.night_id == night.night_id
            connection.execute(tables.nights.update().where(where).values(given_up))


def _raise_without_data(database: sa.Engine, series: Series, nights: Sequence[Night], now: datetime) -> None:
    streak = without_data(nights)
    if len(streak) < MOST_WITHOUT:
        return
    night = streak[MOST_WITHOUT - 1]
    reasons = "; ".join(f"{each.due_at:%Y-%m-%d %H:%M} {each.state}: {each.note}" for each in streak[:MOST_WITHOUT])
    if any(
        each.night_id == night.night_id and each.kind == "no data" for each in store.alarms(database, series.series)
    ):
        return
    with contextlib.suppress(sa.exc.IntegrityError), database.begin() as connection:
        sentence = f"{MOST_WITHOUT} nights without data ({reasons})"
        about = {"series": series.series, "night_id": night.night_id, "kind": "no data", "measure": "nights"}
        _raise(connection, now, **about, sentence=sentence)


def _raise(connection: sa.Connection, now: datetime, **values: str) -> None:
    connection.execute(tables.alarms.insert().values(values | {"raised_at": now}))
