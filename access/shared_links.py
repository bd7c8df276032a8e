"""Links that show one dashboard, study or run to whoever has them, without a login, until an end date.

Only the digest of a link's secret is stored; the link itself is shown once, when it is made.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

import sqlalchemy as sa

from access import passwords
from access.accounts import is_present
from lab import roles
from lab.errors import AccessError
from lab.roles import Actor, Change, Role
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import curated_studies, dashboards, jobs, shared_links, users

#: How many working links a user may have at once.
MOST_LINKS = 500
MOST_TITLE = 200
#: Who may make links: see the setting `web_share_by`.
Sharing = Literal["everybody", "owners", "administrators"]
#: How often a link's last use is written.
_SEEN_EVERY = timedelta(minutes=1)


#: Why somebody may not make a link.
NOT_TO_PUBLISH: dict[Sharing, str] = {
    "owners": "in this lab only its owner may publish a study or a run, and an administrator anything "
    "(DRAFTHOUSE_WEB_SHARE_BY): ask one of them",
    "administrators": "in this lab only administrators publish anything (DRAFTHOUSE_WEB_SHARE_BY): ask one of them",
}


class Kind(StrEnum):
    """What a link can show. A study is named by its job."""

    DASHBOARD = "dashboard"
    STUDY = "study"
    RUN = "run"


@dataclass(frozen=True)
class SharedLink:
    """The parts of a link that may be shown."""

    link_id: str
    owner: str  # who made it
    kind: Kind
    subject: str  # the id of what it shows
    title: str  # the subject's title when the link was made
    created_at: datetime
    ends_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    as_of: datetime | None = None  # the point in time of what it shows; None: always the newest data

    def works(self, now: datetime) -> bool:
        """Return whether the link still works, provided that its maker is not disabled."""
        return self.revoked_at is None and now < self.ends_at


def may_publish(actor: Actor, kind: Kind, owner: str | None, by: Sharing) -> bool:
    """Return whether the actor may make a link to what `owner` owns. A dashboard may show other people's studies."""
    own = kind is not Kind.DASHBOARD and owner == actor.name
    return actor.role is Role.ADMINISTRATOR or by == "everybody" or (by == "owners" and own)


def make_link(
    engine: sa.Engine,
    kind: Kind,
    subject: str,
    title: str,
    *,
    lasts: timedelta,
    most: timedelta,
    actor: Actor,
    as_of: datetime | None = None,
    owner: str | None = None,
    by: Sharing = "everybody",
) -> tuple[SharedLink, str]:
    """Make a link that works for `lasts`, `most` at the longest, and return it with its secret. It shows the data of
    `as_of`, or always the newest. `owner`: of what it shows; `by`: who may make links in this lab.

    Raises AccessError if the actor may not publish this, for a time that is not positive or too long, and for too many
    links.
    """
    roles.require(actor, Change.SHARE, is_new=True)
    if not may_publish(actor, kind, owner, by):
        raise AccessError(NOT_TO_PUBLISH[by])
    if not most:
        raise AccessError("shared links are turned off in this lab: see DRAFTHOUSE_WEB_SHARE_DAYS")
    if not timedelta(0) < lasts <= most:
        raise AccessError(f"a shared link may last more than 0 and at most {most.days} days: not {lasts.days} days")
    now, secret = datetime.now(UTC), passwords.new_secret()
    about = (actor.name, kind, subject, title[:MOST_TITLE])
    link = SharedLink(secrets.token_hex(4), *about, now, now + lasts, None, None, as_of)
    own = (shared_links.c.owner == actor.name, shared_links.c.revoked_at.is_(None), shared_links.c.ends_at > now)
    with engine.begin() as connection:
        count = sa.select(sa.func.count()).select_from(shared_links).where(*own)
        if (connection.scalar(count) or 0) >= MOST_LINKS:
            raise AccessError(f"you have {MOST_LINKS} links that work: end some of them on the page Account first")
        connection.execute(shared_links.insert().values(vars(link) | {"token_hash": passwords.digest(secret)}))
        audit.record(connection, actor, Change.SHARE, f"{kind} {subject}", link=link.link_id, ends_at=link.ends_at)
    return link, secret


def opened(engine: sa.Engine, secret: str, *, absent_after: timedelta | None = None) -> SharedLink | None:
    """Return the link with this secret; None if unknown or ended, or if its maker was disabled or has not signed in for
    the time `absent_after`.

    The maker of a link need not be a user: a lab without accounts has none.
    """
    now = datetime.now(UTC)
    query = sa.select(shared_links).outerjoin(users, users.c.name == shared_links.c.owner)
    valid = (shared_links.c.revoked_at.is_(None), shared_links.c.ends_at > now, users.c.disabled_at.is_(None))
    with reading(engine).connect() as connection:
        this = query.where(shared_links.c.token_hash == passwords.digest(secret), *valid, is_present(absent_after))
        row = connection.execute(this).mappings().one_or_none()
    if row is None:
        return None
    if row["last_used_at"] is None or now - row["last_used_at"] > _SEEN_EVERY:
        with engine.begin() as connection:
            used = shared_links.update().where(shared_links.c.link_id == row["link_id"])
            connection.execute(used.values(last_used_at=now))
    return _link(row)


def all_links(engine: sa.Engine, owner: str | None = None) -> list[SharedLink]:
    """Return the links of one user or of all, ended ones included, the newest first."""
    query = sa.select(shared_links).order_by(shared_links.c.created_at.desc(), shared_links.c.link_id)
    with reading(engine).connect() as connection:
        rows = connection.execute(query if owner is None else query.where(shared_links.c.owner == owner)).mappings()
        return [_link(row) for row in rows]


def others_links_to(engine: sa.Engine, owner: str) -> list[SharedLink]:
    """Return the working links that others made to this user's studies and dashboards, the newest first."""
    submitted = sa.select(jobs.c.job_id).where(jobs.c.submitted_by == owner)
    imported = sa.select(curated_studies.c.job_id).where(curated_studies.c.owner == owner)
    boards = sa.select(dashboards.c.dashboard_id).where(dashboards.c.owner == owner)
    links = shared_links.c
    theirs = sa.or_(
        sa.and_(links.kind == Kind.STUDY, sa.or_(links.subject.in_(submitted), links.subject.in_(imported))),
        sa.and_(links.kind == Kind.DASHBOARD, links.subject.in_(boards)),
    )
    works = (links.revoked_at.is_(None), links.ends_at > datetime.now(UTC), links.owner != owner)
    with reading(engine).connect() as connection:
        query = sa.select(shared_links).where(theirs, *works).order_by(links.created_at.desc(), links.link_id)
        return [_link(row) for row in connection.execute(query).mappings()]


def working_links_to(engine: sa.Engine, kind: Kind, subject: str) -> list[SharedLink]:
    """Return the working links of all users to this subject, the newest first."""
    of_it = (shared_links.c.kind == kind, shared_links.c.subject == subject, shared_links.c.revoked_at.is_(None))
    query = sa.select(shared_links).where(*of_it, shared_links.c.ends_at > datetime.now(UTC))
    with reading(engine).connect() as connection:
        rows = connection.execute(query.order_by(shared_links.c.created_at.desc())).mappings()
        return [_link(row) for row in rows]


def revoke(engine: sa.Engine, link_id: str, *, actor: Actor) -> None:
    """End a link at once. Raises AccessError if there is none, or if neither the link nor what it shows is the actor's
    to end.
    """
    shows_own = link_id in {link.link_id for link in others_links_to(engine, actor.name)}
    with engine.begin() as connection:
        this = shared_links.c.link_id == link_id
        found = connection.execute(sa.select(shared_links).where(this)).mappings().one_or_none()
        if found is None:
            raise AccessError(f"there is no shared link {link_id!r}")
        roles.require(actor, Change.SHARE, actor.name if shows_own else found["owner"])
        if found["revoked_at"] is None:
            connection.execute(shared_links.update().where(this).values(revoked_at=datetime.now(UTC)))
            audit.record(connection, actor, Change.SHARE, f"{found['kind']} {found['subject']}", revoked=link_id)


def _link(row: sa.RowMapping) -> SharedLink:
    values = {name: value for name, value in row.items() if name != "token_hash"}
    return SharedLink(**values | {"kind": Kind(values["kind"])})
