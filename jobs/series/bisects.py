"""Bisects in the app database: what each is about, its steps, and its end. A step is stored with the job that it
queues, in one transaction, so that a bisect that was killed neither forgets nor repeats one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
import sqlalchemy as sa

from host.settings import Settings
from jobs import queue
from jobs.series.store import Series
from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from lab.series.alarm import MEASURES, Measure
from lab.series.bisect import End, Tried
from lab.study import Study
from warehouse.app_db import audit
from warehouse.app_db import schema as tables
from warehouse.app_db.engine import reading
from warehouse.queries.series import blocks

#: Repeats of a measurement, of which several are made if it decides nothing.
_REPEATS = 2
#: Measurements of a version without any value, after which it counts as one that cannot be measured.
_MOST_WITHOUT = 2


@dataclass(frozen=True)
class Version:
    """One version of an engine: its name, where it comes from, and the digest of that, if it is a file."""

    name: str
    origin: str
    digest: str | None = None


@dataclass(frozen=True)
class About:
    """The question of a bisect: by which measure of which arm, over which source of versions."""

    arm: str
    measure: Measure
    source: str


@dataclass(frozen=True)
class Bisect:
    """A row of the table. The good version is the first, the bad one the last."""

    bisect_id: str
    about: About
    versions: tuple[Version, ...]
    study: Study
    end: End | None

    @property
    def engine(self) -> str:
        """Return the engine that the versions replace: that of the watched arm."""
        return next(arm.engine for arm in self.study.arms if arm.name == self.about.arm)


def begin(database: sa.Engine, series: Series, about: About, versions: Sequence[Version], *, actor: Actor) -> Bisect:
    """Store a new bisect. Raises AccessError."""
    study = series.content
    repeats = max(_REPEATS, study.repeats_per_launch)
    study = study.model_copy(update={"repeats": repeats, "budget_s": None})
    now = datetime.now(UTC)
    row = {
        "bisect_id": f"{series.series} {now:%Y-%m-%dT%H:%M:%SZ}",
        "series": series.series,
        "arm": about.arm,
        "measure": about.measure.name,
        "source": about.source,
        "versions_json": json.dumps([vars(version) for version in versions]),
        "study_json": study.model_dump_json(),
        "started_at": now,
        "started_by": actor.name,
    }
    with database.begin() as connection:
        roles.require(actor, Change.SERIES, series.owner)
        connection.execute(tables.bisects.insert().values(row))
        audit.record(connection, actor, Change.SERIES, series.series, bisect=about.source)
        return _read(connection, tables.bisects.c.bisect_id == row["bisect_id"])[0]


def last(database: sa.Engine, series: Series, about: About) -> Bisect | None:
    """Return the last bisect about the same, ended or not."""
    columns = tables.bisects.c
    same = (columns.arm == about.arm, columns.measure == about.measure.name, columns.source == about.source)
    with reading(database).connect() as connection:
        found = _read(connection, sa.and_(columns.series == series.series, *same))
    return found[-1] if found else None


def _read(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Bisect]:
    table = tables.bisects
    rows = connection.execute(sa.select(table).where(where).order_by(table.c.started_at)).mappings()
    return [
        Bisect(
            row["bisect_id"],
            About(row["arm"], next(each for each in MEASURES if each.name == row["measure"]), row["source"]),
            tuple(Version(**each) for each in json.loads(row["versions_json"])),
            Study.model_validate_json(row["study_json"]),
            None if row["end_json"] is None else End(**json.loads(row["end_json"])),
        )
        for row in rows
    ]


@dataclass(frozen=True)
class Taken:
    """A step that was taken: the index of its version, and its job, or why there is none."""

    version: int
    job_id: str | None
    note: str | None


def steps(database: sa.Engine, of: Bisect) -> list[Taken]:
    """Return the steps so far, in their order."""
    table = tables.bisect_steps
    query = sa.select(table.c.version, table.c.job_id, table.c.note).where(table.c.bisect_id == of.bisect_id)
    with reading(database).connect() as connection:
        return [Taken(*row) for row in connection.execute(query.order_by(table.c.number))]


def measure_version(settings: Settings, of: Bisect, version: int, engine: str, *, actor: Actor) -> str:
    """Queue the study on this engine as the next step; return the job. Raises UserError if it cannot be queued."""
    arms = [arm.model_copy(update={"engine": engine}) if arm.engine == of.engine else arm for arm in of.study.arms]
    study = of.study.model_copy(update={"arms": tuple(arms), "name": f"{of.study.name} {of.versions[version].name}"})

    def claim(connection: sa.Connection, job_id: str) -> None:
        _add(connection, of, version, job_id=job_id)

    return queue.submit(settings, study, actor=actor, within=claim)


def failed(database: sa.Engine, of: Bisect, version: int, why: str) -> None:
    """Store that a version could not be installed or queued."""
    with database.begin() as connection:
        _add(connection, of, version, note=why)


def _add(connection: sa.Connection, of: Bisect, version: int, **values: str) -> None:
    table = tables.bisect_steps
    count = sa.select(sa.func.count()).select_from(table).where(table.c.bisect_id == of.bisect_id)
    row = {"bisect_id": of.bisect_id, "number": connection.scalar(count), "version": version}
    connection.execute(table.insert().values(row | values))


def store_end(database: sa.Engine, of: Bisect, end: End) -> None:
    """Store what it came to."""
    table = tables.bisects
    values = {"ended_at": datetime.now(UTC), "end_json": json.dumps(vars(end))}
    with database.begin() as connection:
        connection.execute(table.update().where(table.c.bisect_id == of.bisect_id).values(values))


def tried(con: duckdb.DuckDBPyConnection, of: Bisect, taken: Sequence[Taken]) -> list[Tried]:
    """Return what is known of each version, by the steps whose jobs have ended and the published results.

    A version without a value in two measurements is not measured again.
    """
    found = []
    cells = len(of.study.workloads) * len(of.study.loads)
    for place, version in enumerate(of.versions):
        own = [step for step in taken if step.version == place]
        jobs = [step.job_id for step in own if step.job_id is not None]
        rows = blocks(con, jobs, of.about.arm, of.study.baseline.name, cells) if jobs else []
        values = [row[of.about.measure.name] for row in rows if row[of.about.measure.name] is not None]
        notes = [step.note for step in own if step.note is not None]
        why = notes[-1] if notes else None
        if not values and len(jobs) >= _MOST_WITHOUT:
            why = f"{' and '.join(jobs)} measured no whole block of it"
        found.append(Tried(version.name, tuple(values), len(jobs), why))
    return found


def arm_of(series: Series, arm: str | None) -> str:
    """Return the arm to bisect by. Raises UserError for a series that measures nothing here, and for an unknown arm."""
    if series.is_imported:
        raise UserError(f"{series.series} is of imported results, which nothing here can measure again")
    if arm is None and len(series.arms) == 1:
        return series.arms[0]
    if arm not in series.arms:
        asked = "name the arm with --arm" if arm is None else f"there is no arm {arm!r}"
        raise UserError(f"{asked}: {series.series} watches {series.watched}")
    return arm
