"""Series in the app database: adding, pausing and removing them, their nights and alarms, and notes on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from host.settings import Settings
from jobs.engines.kinds import KINDS
from jobs.submission import check_study
from jobs.table import check_priority
from lab import roles
from lab.errors import UnknownNameError, UserError
from lab.roles import Actor, Change
from lab.series.alarm import MEASURES
from lab.series.schedule import Schedule, schedule
from lab.study import Study
from warehouse.app_db import audit
from warehouse.app_db import schema as tables
from warehouse.app_db.engine import reading

State = Literal["queued", "measured", "failed", "invalid", "skipped", "missed"]
NEWEST = "@newest"
SUSPICIOUS = "suspicious"
#: The schedule of a series whose nights are imported.
IMPORTED = "imported"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
#: The column of a night's finding, by the name of its measure.
FINDINGS = dict(zip((measure.name for measure in MEASURES), ("speedup_finding", "acceptance_finding"), strict=True))


@dataclass(frozen=True)
class Series:
    """A row of the table. `due_since`: nothing was due before. `arm`: the only one that is watched; None: each that is
    compared with the baseline.
    """

    series: str
    study: str
    schedule: str
    zone: str
    engine: str | None
    priority: int
    added_at: datetime
    paused_at: datetime | None
    removed_at: datetime | None
    silenced_until: datetime | None
    due_since: datetime
    study_json: str
    owner: str
    arm: str | None

    @property
    def is_imported(self) -> bool:
        """Return whether its nights are imported results; then it has neither a study nor a timetable."""
        return self.schedule == IMPORTED

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arms of its study that are watched."""
        return (self.arm,) if self.arm is not None else _candidates(self.content)

    @property
    def watched(self) -> str:
        """Return the watched arms in words."""
        return "every arm" if self.arm is None and self.is_imported else ", ".join(map(repr, self.arms))

    @property
    def timetable(self) -> Schedule:
        return schedule(self.schedule, self.zone)

    @property
    def content(self) -> Study:
        return Study.model_validate_json(self.study_json)

    def is_silent(self, at: datetime) -> bool:
        return self.silenced_until is not None and at < self.silenced_until


@dataclass(frozen=True)
class Night:
    """A row of the table: an arm's night, or with `again_of` its re-measurement."""

    night_id: str
    series: str
    due_at: datetime
    again_of: str | None
    state: State
    job_id: str | None
    note: str | None
    speedup: float | None
    low: float | None
    high: float | None
    acceptance_length: float | None
    arm_tok_per_s: float | None
    baseline_tok_per_s: float | None
    hardware: str | None
    engine_version: str | None
    speedup_finding: str | None
    predicted_low: float | None
    predicted_high: float | None
    acceptance_finding: str | None
    arm: str
    label: str | None


@dataclass(frozen=True)
class Alarm:
    """A row of the table."""

    alarm_id: int
    series: str
    night_id: str
    kind: Literal["fall", "rise", "no data"]
    measure: str
    sentence: str
    raised_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledgement: str | None
    webhook_at: datetime | None
    email_at: datetime | None
    delivery_error: str | None

    @property
    def is_open(self) -> bool:
        return self.kind != "rise" and self.acknowledged_at is None


@dataclass(frozen=True)
class Plan:
    """What a new series is to do: its schedule and zone, arm (None: each candidate), engine tag and priority."""

    every: str
    zone: str = "UTC"
    arm: str | None = None
    engine: str | None = None
    priority: int = 0


def add(settings: Settings, database: sa.Engine, name: str, study: Study, plan: Plan, *, actor: Actor) -> Series:
    """Add a series, which is due from now on. Raises UserError for a taken or invalid name or plan, AccessError, and
    StudyError for a study that could not be submitted now.
    """
    roles.require(actor, Change.SERIES, is_new=True)
    if plan.priority > 0:
        roles.require(actor, Change.ORDER)
    check_priority(plan.priority)
    _check_name(name)
    schedule(plan.every, plan.zone)
    if plan.engine is not None and plan.engine.removesuffix(NEWEST) not in KINDS:
        raise UserError(
            f"{plan.engine!r} is not an engine to choose each night: write a kind and {NEWEST}, like vllm{NEWEST}"
        )
    if study.tune is not None or any(load.find is not None for load in study.loads):
        raise UserError("a series compares tokens/s each night: its study can neither tune nor search for a capacity")
    candidates = _candidates(study)
    if not candidates or plan.arm not in (None, *candidates):
        asked = "a series watches an arm beside the baseline" if plan.arm is None else f"there is no arm {plan.arm!r}"
        raise UserError(f"{asked}; compared with {study.baseline.name!r} are {', '.join(candidates) or 'none'}")
    study = check_study(settings, study, actor.role, database)
    every = " ".join(plan.every.lower().split())
    own = {"study": study.name, "study_json": study.model_dump_json(), "arm": plan.arm}
    return _insert(
        database, name, actor, **own, schedule=every, zone=plan.zone, engine=plan.engine, priority=plan.priority
    )


def add_imported(database: sa.Engine, name: str, arm: str | None, *, actor: Actor) -> Series:
    """Add a series whose nights are jobs that are imported with the label series=NAME. Raises as `add` does."""
    roles.require(actor, Change.SERIES, is_new=True)
    _check_name(name)
    without = {"study": "imported results", "study_json": "", "zone": "UTC", "engine": None, "priority": 0}
    return _insert(database, name, actor, **without, arm=arm, schedule=IMPORTED)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot be a series' name: use up to 60 letters, digits and . _ -")


def _insert(database: sa.Engine, name: str, actor: Actor, **values: Any) -> Series:
    now = datetime.now(UTC)
    unset: dict[str, Any] = dict.fromkeys(("paused_at", "removed_at", "silenced_until"))
    made = Series(series=name, owner=actor.name, added_at=now, due_since=now, **unset, **values)
    with database.begin() as connection:
        if _find(connection, name) is not None:
            raise UserError(f"there is or was a series {name}: choose another name, as nights are never mixed")
        connection.execute(tables.series.insert().values(vars(made)))
        audit.record(connection, actor, Change.SERIES, name, added=made.study, every=made.schedule)
    return made


def _candidates(study: Study) -> tuple[str, ...]:
    return tuple(arm.name for arm in study.arms if arm.name != study.baseline.name)


def all_series(database: sa.Engine) -> list[Series]:
    """Return the series that were not removed, in alphabetical order."""
    query = sa.select(tables.series).where(tables.series.c.removed_at.is_(None)).order_by(tables.series.c.series)
    with reading(database).connect() as connection:
        return [Series(**row) for row in connection.execute(query).mappings()]


def named(database: sa.Engine, name: str) -> Series:
    """Return the series. Raises UnknownNameError."""
    with reading(database).connect() as connection:
        return _get(connection, name)


def nights(database: sa.Engine, name: str, newest: int | None = None) -> list[Night]:
    """Return the nights of a series in their order, each followed by its re-measurements; or those of its newest
    moments.
    """
    table = tables.nights
    query = sa.select(table).where(table.c.series == name).order_by(table.c.due_at, table.c.night_id)
    if newest is not None:
        moments = sa.select(table.c.due_at).distinct().where(table.c.series == name)
        last = moments.order_by(table.c.due_at.desc()).limit(newest).subquery()
        query = query.where(table.c.due_at >= sa.select(sa.func.min(last.c.due_at)).scalar_subquery())
    with reading(database).connect() as connection:
        return [Night(**row) for row in connection.execute(query).mappings()]


def alarms(database: sa.Engine, name: str | None = None) -> list[Alarm]:
    """Return all alarms, or those of a series, oldest first."""
    query = sa.select(tables.alarms).order_by(tables.alarms.c.alarm_id)
    if name is not None:
        query = query.where(tables.alarms.c.series == name)
    with reading(database).connect() as connection:
        return [Alarm(**row) for row in connection.execute(query).mappings()]


def annotations_of(database: sa.Engine, name: str) -> list[tuple[datetime, str]]:
    """Return the moments and texts of what was noted, oldest first."""
    table = tables.series_annotations
    query = sa.select(table.c.at, table.c.text).where(table.c.series == name).order_by(table.c.at)
    with reading(database).connect() as connection:
        return [(at, text) for at, text in connection.execute(query)]


def pause(database: sa.Engine, name: str, *, actor: Actor) -> None:
    """Let nothing be due until the series is resumed."""
    _change(database, name, actor, paused_at=datetime.now(UTC))


def resume(database: sa.Engine, name: str, *, actor: Actor) -> None:
    """Resume from now; what would have been due meanwhile was not missed."""
    _change(database, name, actor, paused_at=None, due_since=datetime.now(UTC))


def remove(database: sa.Engine, name: str, *, actor: Actor) -> None:
    """End the series; its nights and alarms stay in the warehouse."""
    _change(database, name, actor, removed_at=datetime.now(UTC))


def silence(database: sa.Engine, name: str, until: datetime, *, actor: Actor) -> None:
    """Send no alarm that is raised before this moment."""
    _change(database, name, actor, silenced_until=until)


def annotate(database: sa.Engine, name: str, text: str, at: datetime, *, actor: Actor) -> None:
    """Note what happened at this moment, such as `driver 580`."""
    with database.begin() as connection:
        roles.require(actor, Change.SERIES, _get(connection, name).owner)
        row = {"series": name, "at": at, "text": text, "added_by": actor.name}
        connection.execute(tables.series_annotations.insert().values(row))
        audit.record(connection, actor, Change.SERIES, name, annotated=text)


def acknowledge(database: sa.Engine, alarm_id: int, note: str, *, actor: Actor) -> None:
    """Close the alarm with a note. Raises UnknownNameError; UserError if it was acknowledged before."""
    table = tables.alarms
    with database.begin() as connection:
        row = connection.execute(sa.select(table).where(table.c.alarm_id == alarm_id)).mappings().one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no alarm {alarm_id}: `drafthouse series check` lists the open ones")
        roles.require(actor, Change.SERIES, _get(connection, row["series"]).owner)
        if row["acknowledged_at"] is not None:
            raise UserError(f"{row['acknowledged_by']} has acknowledged alarm {alarm_id} already")
        closed = {"acknowledged_at": datetime.now(UTC), "acknowledged_by": actor.name, "acknowledgement": note}
        connection.execute(table.update().where(table.c.alarm_id == alarm_id).values(closed))
        audit.record(connection, actor, Change.SERIES, row["series"], acknowledged=alarm_id, note=note)


def _change(database: sa.Engine, name: str, actor: Actor, **values: Any) -> None:
    with database.begin() as connection:
        roles.require(actor, Change.SERIES, _get(connection, name).owner)
        connection.execute(tables.series.update().where(tables.series.c.series == name).values(values))
        audit.record(connection, actor, Change.SERIES, name, **values)


def _find(connection: sa.Connection, name: str) -> sa.RowMapping | None:
    return connection.execute(sa.select(tables.series).where(tables.series.c.series == name)).mappings().one_or_none()


def _get(connection: sa.Connection, name: str) -> Series:
    row = _find(connection, name)
    if row is None or row["removed_at"] is not None:
        raise UnknownNameError(f"there is no series {name}: `drafthouse series list` lists them")
    return Series(**row)
