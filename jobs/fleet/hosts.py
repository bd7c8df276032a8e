"""Hosts that had to put jobs back, through no fault of the studies. After three in a row a host takes no job.

A job that ends there, or a person who says that the host is mended, makes it count from none again. After ten minutes
the host tries itself, and then takes one job: if that one comes back, too, it waits for ten minutes more. Where a host
has several slots, each counts by itself: one GPU may fail and the others not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from warehouse.app_db import audit
from warehouse.app_db.clock import database_now
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import hosts

#: Jobs that a host puts back in a row before it is set aside, and when it is tried again.
MOST_IN_A_ROW, TRY_AGAIN_AFTER = 3, timedelta(minutes=10)
MEND_COMMAND = "drafthouse workers --mended"


@dataclass(frozen=True)
class SetAsideHost:
    """A host that takes no job. The times are the database's."""

    host: str  # or its slot
    reason: str
    failures: int
    try_again_at: datetime
    is_due: bool  # to be tried again

    @property
    def sentence(self) -> str:
        """Say why it waits, and when and how it is tried again: `it is set aside ...`."""
        return (
            f"it is set aside, because it had to put back {self.failures} studies in a row, the last with: "
            f"{self.reason.partition(chr(10))[0]} (it tries again at {self.try_again_at:%H:%M} UTC, or at once after "
            f"`{MEND_COMMAND} {self.host.rpartition(' of ')[2]}`)"
        )


def place(host: str, slot: int | None) -> str:
    """Return what is set aside: `slot 3 of gpu01`, or the host if one worker has all of it."""
    return host if slot is None else f"slot {slot} of {host}"


def record_failure(engine: sa.Engine, host: str, why: str) -> None:
    """Count a job that the host had to put back."""
    with engine.begin() as connection:
        now = database_now(connection)
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        last = sa.case((hosts.c.failures + 1 >= MOST_IN_A_ROW, sa.literal(now, hosts.c.set_aside_at.type)))
        again = {"failures": hosts.c.failures + 1, "reason": why, "set_aside_at": last}
        first = insert(hosts).values(host=host, failures=1, reason=why)
        connection.execute(first.on_conflict_do_update(index_elements=[hosts.c.host], set_=again))


def record_success(engine: sa.Engine, host: str) -> None:
    """Forget what failed: a job has ended on the host, whatever its result."""
    with engine.begin() as connection:
        connection.execute(hosts.delete().where(hosts.c.host == host))


def mend(engine: sa.Engine, host: str, *, actor: Actor) -> None:
    """Let a host that was set aside, and all its slots, take jobs again. Raises UserError if it was not, and
    AccessError.
    """
    roles.require(actor, Change.HOSTS)
    its = (hosts.c.host == host) | hosts.c.host.endswith(f" of {host}", autoescape=True)
    with engine.begin() as connection:
        done = connection.execute(hosts.delete().where(its, hosts.c.set_aside_at.is_not(None)))
        if done.rowcount == 0:
            raise UserError(f"no host {host!r} is set aside: `drafthouse workers` lists all workers")
        audit.record(connection, actor, Change.HOSTS, host, mended=True)


def try_again(engine: sa.Engine, host: str, still_lacks: str | None) -> None:
    """Let a host that tried itself take one job; or, with what it still lacks, set it aside for longer."""
    with engine.begin() as connection:
        change: dict[str, object] = {"failures": MOST_IN_A_ROW - 1, "set_aside_at": None}
        if still_lacks is not None:
            change = {"reason": still_lacks, "set_aside_at": database_now(connection)}
        connection.execute(hosts.update().where(hosts.c.host == host, hosts.c.set_aside_at.is_not(None)).values(change))


def set_aside_host(engine: sa.Engine, host: str) -> SetAsideHost | None:
    """Return why the host takes no job; None if it takes some."""
    return next((aside for aside in set_aside_hosts(engine) if aside.host == host), None)


def set_aside_hosts(engine: sa.Engine) -> list[SetAsideHost]:
    """Return the hosts that take no job, in the order of their names."""
    aside = sa.select(hosts).where(hosts.c.set_aside_at.is_not(None)).order_by(hosts.c.host)
    with reading(engine).connect() as connection:
        rows = connection.execute(aside).mappings().all()
        if not rows:
            return []
        now = database_now(connection)
    return [_aside(row, now) for row in rows]


def _aside(row: sa.RowMapping, now: datetime) -> SetAsideHost:
    at = row["set_aside_at"] + TRY_AGAIN_AFTER
    return SetAsideHost(row["host"], row["reason"], row["failures"], at, is_due=now >= at)
