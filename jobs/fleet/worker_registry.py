"""The table of workers: their hardware, their engines, and the job that each works on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from pydantic import TypeAdapter

from jobs.engines.capabilities import Capabilities
from jobs.fleet.needs import unmet
from jobs.table import Job
from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from lab.study import Study
from warehouse.app_db import audit
from warehouse.app_db.clock import database_now
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import workers as workers_table

#: How often each worker records its presence.
PRESENCE_EVERY_S = 10.0
#: A worker that has been silent for this long counts as absent; its row stays for a while.
AWAY_AFTER_S = 3 * PRESENCE_EVERY_S
#: A host whose clock differs by more is named.
CLOCK_OFF_S = 2.0
_FORGOTTEN_AFTER = timedelta(days=30)
_ENGINES = TypeAdapter(list[Capabilities])


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's row."""

    worker: str
    host: str
    hardware: str
    gpus: int
    engines: tuple[Capabilities, ...] | None  # None until the worker has examined them, or if it is another version
    started_at: datetime
    last_seen: datetime
    job_id: str | None  # the job it works on
    slot: str | None = None  # its part of the host, as `3: GPU 3; processors 12-15`; None: the whole host
    waits_for: str | None = None  # why it starts no engine: `GPU 3 is used by python (process 17 of ada)`
    queue: str | None = None  # of the broker, by which it is woken; None: it only polls
    drains: bool = False  # it ends after the block that it measures
    clock_behind_s: float | None = None  # the database's time minus its own at its last claim; None: unknown
    keeps: str | None = None  # engines of its last study for the next one: `2 engines until 14:05 UTC`

    @property
    def idle_words(self) -> str:
        """Return `free`, with the engines that it keeps."""
        return "free" if self.keeps is None else f"free, keeps {self.keeps}"

    @property
    def slot_number(self) -> int:
        """Return the slot's number from 1; 0 for the whole host."""
        return int((self.slot or "0").partition(":")[0])

    @property
    def slot_name(self) -> str:
        """Return `slot 3 of gpu01`, or the host alone for a worker that has all of it."""
        return f"slot {self.slot_number} of {self.host}" if self.slot else self.host

    @property
    def engine_names(self) -> Collection[str]:
        return {engine.engine for engine in self.engines or ()}

    def has_engines(self, study: Study) -> bool:
        """Return whether it has the engines of all arms; true if it has not examined its engines yet."""
        return self.engines is None or all(arm.engine in self.engine_names for arm in study.arms)

    def lacks(self, job: Job) -> list[str]:
        """Return the engines, perhaps with the version that the job began with, that it does not have."""
        return [] if self.engines is None else unmet(job.needs, {it.engine: it.version for it in self.engines})

    def is_away(self, now: datetime | None = None) -> bool:
        return ((now or datetime.now(UTC)) - self.last_seen).total_seconds() > AWAY_AFTER_S


def list_workers(engine: sa.Engine) -> list[WorkerInfo]:
    """Return every present or recently present worker, the last seen first.

    `last_seen` is by this host's clock, whatever the clocks of the database and of the workers.
    """
    rows = sa.select(workers_table).order_by(workers_table.c.last_seen.desc(), workers_table.c.worker)
    with reading(engine).connect() as connection:
        ahead = datetime.now(UTC) - database_now(connection)
        return [_seen(row, ahead) for row in connection.execute(rows).mappings()]


def wrong_clocks(workers: Iterable[WorkerInfo]) -> list[str]:
    """Say which hosts' clocks differed from the database's at their last claim, by more than a claim takes."""
    behind = {worker.host: worker.clock_behind_s for worker in workers if abs(worker.clock_behind_s or 0) > CLOCK_OFF_S}
    return [
        f"The clock of {host} is {abs(seconds or 0):,.0f} s {'behind' if (seconds or 0) > 0 else 'ahead of'} the "
        "database's: stored times are corrected, its logs are not"
        for host, seconds in sorted(behind.items())
    ]


def why_jobs_wait(engine: sa.Engine, jobs: Sequence[Job]) -> dict[str, str]:
    """Return by job id why no present worker starts a job, without the jobs that some worker may start."""
    present = [worker for worker in list_workers(engine) if not worker.is_away()]
    return {job.job_id: why for job in jobs if (why := _why_it_waits(job, present))}


def _why_it_waits(job: Job, present: Sequence[WorkerInfo]) -> str:
    if lacking := lacking_hardware(job.study, present) or lacking_engines(job.study, present):
        return lacking
    able = [worker for worker in present if worker.has_engines(job.study)]
    if able and all(worker.lacks(job) for worker in able):
        began = ", ".join(able[0].lacks(job))
        return f"it began with {began}, and no worker has that version: cancel it and retry all of it, or install that"
    if not all(worker.waits_for for worker in able):
        return ""
    return "; ".join(f"{worker.slot_name} waits: {worker.waits_for}" for worker in able)


def lacking_hardware(study: Study, workers: Sequence[WorkerInfo]) -> str:
    """Return `no worker has the hardware 'H200'; workers have AMD EPYC (2 cores)`; empty if one has what the study
    requires, or without any worker.
    """
    names = sorted({worker.hardware for worker in workers})
    if not names or any(has_hardware(name, study.hardware) for name in names):
        return ""
    return f"no worker has the hardware {study.hardware!r}; workers have {', '.join(names)}"


def lacking_engines(study: Study, workers: Sequence[WorkerInfo]) -> str:
    """Return which of its engines no worker has, like `no worker has the engine 'sglang'`; empty if one may have
    all.
    """
    if not workers or any(worker.has_engines(study) for worker in workers):
        return ""
    needed = sorted({arm.engine for arm in study.arms})
    nowhere = [name for name in needed if not any(name in worker.engine_names for worker in workers)]
    if len(nowhere) == 1:
        return f"no worker has the engine {nowhere[0]!r}"
    return f"no worker has all of the engines {', '.join(map(repr, nowhere or needed))}"


def register_worker(
    engine: sa.Engine,
    worker: str,
    *,
    host: str,
    hardware: str,
    gpus: int,
    is_dead: Callable[[str], bool],
    slot: str | None = None,
) -> None:
    """Register a worker that has started. Dead workers of its host are removed, and those unseen for a month."""
    with engine.begin() as connection:
        now = database_now(connection)
        row = {"worker": worker, "host": host, "hardware": hardware, "gpus": gpus, "slot": slot}
        row |= {"started_at": now, "last_seen": now}
        registered = connection.execute(sa.select(workers_table.c.worker, workers_table.c.last_seen)).all()
        gone = [name for name, last_seen in registered if is_dead(name) or now - last_seen > _FORGOTTEN_AFTER]
        connection.execute(workers_table.delete().where(workers_table.c.worker.in_([*gone, worker])))
        connection.execute(workers_table.insert().values(row))


def record_presence(engine: sa.Engine, worker: str, job_id: str | None) -> bool:
    """Record that the worker is present and works on this job. Return whether it is the first of the present ones by
    name: that one looks after lost jobs for all.
    """
    with engine.begin() as connection:
        now = database_now(connection)
        _update(connection, worker, last_seen=now, job_id=job_id)
        present = workers_table.c.last_seen > now - timedelta(seconds=AWAY_AFTER_S)
        first = sa.select(sa.func.min(workers_table.c.worker)).where(present)
        return bool(connection.scalar(first) == worker)


def record(engine: sa.Engine, worker: str, **columns: str | None) -> None:
    """Set columns of the worker's row: what it `waits_for`, which engines it `keeps`, its `queue` (see WorkerInfo)."""
    with engine.begin() as connection:
        _update(connection, worker, **columns)


def queues_for(engine: sa.Engine, study: Study) -> list[str]:
    """Return the queues of the present workers that could measure a study."""
    able = [
        worker
        for worker in list_workers(engine)
        if not worker.is_away() and worker.has_engines(study) and has_hardware(worker.hardware, study.hardware)
    ]
    return sorted({worker.queue for worker in able if worker.queue is not None})


def drain(engine: sa.Engine, host: str, *, actor: Actor) -> list[str]:
    """Ask the present workers of a host to end after the block that each measures. Return their names.

    Raises UserError if there is none, and AccessError.
    """
    roles.require(actor, Change.HOSTS)
    its = [worker.worker for worker in list_workers(engine) if worker.host == host and not worker.is_away()]
    if not its:
        raise UserError(f"no worker of host {host!r} is running: `drafthouse workers` lists all of them")
    with engine.begin() as connection:
        connection.execute(workers_table.update().where(workers_table.c.worker.in_(its)).values(drains=True))
        audit.record(connection, actor, Change.HOSTS, host, drains=len(its))
    return its


def asked_to_drain(engine: sa.Engine, worker: str) -> bool:
    """Return whether somebody asked this worker to drain."""
    query = sa.select(workers_table.c.drains).where(workers_table.c.worker == worker)
    with reading(engine).connect() as connection:
        return bool(connection.scalar(query))


def store_engines(engine: sa.Engine, worker: str, engines: Sequence[Capabilities]) -> None:
    """Store the capabilities of the worker's engines."""
    record(engine, worker, engines_json=_ENGINES.dump_json(list(engines)).decode())


def known_engines(engine: sa.Engine) -> list[Capabilities]:
    """Return the engines that workers have reported, each distinct one once."""
    return distinct_engines(list_workers(engine))


def distinct_engines(workers: Iterable[WorkerInfo]) -> list[Capabilities]:
    """Return the engines of these workers, each distinct one once."""
    return list({known.digest(): known for worker in workers for known in worker.engines or ()}.values())


def has_hardware(hardware: str, wanted: str | None) -> bool:
    """Return whether a host with this hardware may run a study that requires `wanted`, ignoring case."""
    return wanted is None or wanted.lower() in hardware.lower()


def _update(connection: sa.Connection, worker: str, **values: object) -> None:
    connection.execute(workers_table.update().where(workers_table.c.worker == worker).values(values))


def _seen(row: sa.RowMapping, ahead: timedelta) -> WorkerInfo:
    """Return the worker in a row; this host's clock is `ahead` of the database's."""
    values = dict(row)
    values["last_seen"] += ahead
    return WorkerInfo(engines=_engines(values.pop("engines_json")), **values)


def _engines(text: str | None) -> tuple[Capabilities, ...] | None:
    """Return None if the engines are unknown, or if a worker of another version wrote them in a form unknown here."""
    try:
        return None if text is None else tuple(_ENGINES.validate_json(text))
    except ValueError:
        return None
