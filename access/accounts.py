"""The users of this lab: their roles, the one-time links with which they set a password, and who is disabled.

A user is never deleted, because jobs and the audit table name them; a disabled user cannot sign in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from access import passwords
from lab import roles
from lab.errors import AccessError
from lab.roles import Actor, Change, Role
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import login_links, sessions, users

#: A name as mail programs, directories and people write it.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
LINK_LASTS = timedelta(days=3)


@dataclass(frozen=True)
class User:
    name: str
    role: Role
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None


def add_user(engine: sa.Engine, name: str, role: Role, *, actor: Actor) -> None:
    """Add a user. Raises AccessError for a taken or invalid name, and if the actor may not manage users."""
    roles.require(actor, Change.USERS)
    if not _NAME.fullmatch(name):
        raise AccessError(f"{name!r} cannot be a user's name: use up to 100 letters, digits and . _ @ + -")
    with engine.begin() as connection:
        if _find(connection, name) is not None:
            raise AccessError(f"user {name} already exists: `drafthouse user link {name}` makes a new link")
        row = {"name": name, "role": role.value, "password_hash": None, "created_at": datetime.now(UTC)}
        connection.execute(users.insert().values(row))
        audit.record(connection, actor, Change.USERS, name, added=role.value)


def new_link(engine: sa.Engine, name: str, *, actor: Actor) -> str:
    """Return the secret of a new one-time link with which the user sets a password; earlier links of theirs end."""
    roles.require(actor, Change.USERS)
    secret, now = passwords.new_secret(), datetime.now(UTC)
    row = {"token_hash": passwords.digest(secret), "name": name, "created_at": now, "ends_at": now + LINK_LASTS}
    with engine.begin() as connection:
        _existing(connection, name)
        connection.execute(login_links.delete().where(login_links.c.name == name))
        connection.execute(login_links.insert().values(row))
        audit.record(connection, actor, Change.USERS, name, link=True)
    return secret


def set_role(engine: sa.Engine, name: str, role: Role, *, actor: Actor) -> None:
    """Change the user's role, from their next click on."""
    roles.require(actor, Change.USERS)
    with engine.begin() as connection:
        before = _existing(connection, name).role
        connection.execute(users.update().where(users.c.name == name).values(role=role.value))
        audit.record(connection, actor, Change.USERS, name, role=role.value, was=before)


def disable(engine: sa.Engine, name: str, *, actor: Actor) -> None:
    """End the user's sessions and links, and refuse their sign-ins from now on."""
    roles.require(actor, Change.USERS)
    with engine.begin() as connection:
        _existing(connection, name)
        connection.execute(users.update().where(users.c.name == name).values(disabled_at=datetime.now(UTC)))
        _end_all(connection, name)
        audit.record(connection, actor, Change.USERS, name, disabled=True)


def enable(engine: sa.Engine, name: str, *, actor: Actor) -> None:
    """Let a disabled user in again."""
    roles.require(actor, Change.USERS)
    with engine.begin() as connection:
        _existing(connection, name)
        connection.execute(users.update().where(users.c.name == name).values(disabled_at=None))
        audit.record(connection, actor, Change.USERS, name, disabled=False)


def all_users(engine: sa.Engine) -> list[User]:
    """Return all users in alphabetical order."""
    with reading(engine).connect() as connection:
        rows = connection.execute(sa.select(users).order_by(users.c.name)).all()
    return [User(row.name, Role(row.role), bool(row.password_hash), row.created_at, row.disabled_at) for row in rows]


def role_now(engine: sa.Engine, name: str | None) -> Role | None:
    """Return the role of whoever made something, at this moment; None for a user who is disabled.

    Whoever is not a user, or unknown, came in on the host itself, and anybody who may use the host is an administrator.
    """
    with reading(engine).connect() as connection:
        # Only these columns: a worker's host may read no others.
        query = sa.select(users.c.role, users.c.disabled_at).where(users.c.name == name)
        row = None if name is None else connection.execute(query).one_or_none()
    if row is None:
        return Role.ADMINISTRATOR
    return Role(row.role) if row.disabled_at is None else None


def is_present(absent_after: timedelta | None) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a user signed in within this time: the provider may have removed them since.

    A user who never signed in, such as a program's, is present until an administrator disables them.
    """
    if absent_after is None:
        return sa.true()
    return sa.or_(users.c.came_in_at.is_(None), users.c.came_in_at > datetime.now(UTC) - absent_after)


def welcome(engine: sa.Engine, name: str, claimed: Role | None, new: Role | None) -> None:
    """Let in a user whom another service vouches for, with the role that it claims, if it claims one.

    Anybody who is not a user yet becomes one with that role, else with `new`. Raises AccessError if neither is set, and
    for a disabled user.
    """
    with engine.begin() as connection:
        row = _find(connection, name)
        if row is not None and row.disabled_at is not None:
            raise AccessError(f"{name} may no longer sign in to this lab: ask an administrator")
        role = claimed or (new if row is None else Role(row.role))
        if role is None or not _NAME.fullmatch(name):
            raise AccessError(f"this lab has no user {name}: an administrator can run `drafthouse user add {name}`")
        if row is None:
            values = {"name": name, "role": role.value, "password_hash": None, "created_at": datetime.now(UTC)}
            connection.execute(users.insert().values(values))
            audit.record(connection, Actor(name, role), Change.USERS, name, added=role.value, by="login")
        elif row.role != role.value:
            connection.execute(users.update().where(users.c.name == name).values(role=role.value))
            audit.record(connection, Actor(name, role), Change.USERS, name, role=role.value, was=row.role, by="login")


def user_of_link(engine: sa.Engine, secret: str) -> str:
    """Return the name of the user to whom an unused link belongs. Raises AccessError for any other link."""
    with reading(engine).connect() as connection:
        return _user_of_link(connection, secret)


def set_password(engine: sa.Engine, secret: str, password: str) -> str:
    """Use up the link to set its user's password, end the user's sessions, and return the user's name.

    Raises AccessError for a link that was used, has ended or never was, and for a password that cannot be used.
    """
    user_of_link(engine, secret)  # before the slow hash
    hashed = passwords.hash_password(password)
    with engine.begin() as connection:
        name = _user_of_link(connection, secret)
        connection.execute(users.update().where(users.c.name == name).values(password_hash=hashed))
        _end_all(connection, name)
        actor = Actor(name, Role(_existing(connection, name).role))
        audit.record(connection, actor, "password.set", name)
    return name


def _user_of_link(connection: sa.Connection, secret: str) -> str:
    valid = (login_links.c.token_hash == passwords.digest(secret), login_links.c.ends_at > datetime.now(UTC))
    query = sa.select(login_links.c.name).join(users).where(*valid, users.c.disabled_at.is_(None))
    name: str | None = connection.scalar(query)
    if name is None:
        raise AccessError("this link was already used or has expired: ask an administrator for a new one")
    return name


def _end_all(connection: sa.Connection, name: str) -> None:
    for table in (login_links, sessions):
        connection.execute(table.delete().where(table.c.name == name))


def _find(connection: sa.Connection, name: str) -> sa.Row[tuple[object, ...]] | None:
    return connection.execute(sa.select(users).where(users.c.name == name)).one_or_none()


def _existing(connection: sa.Connection, name: str) -> sa.Row[tuple[object, ...]]:
    row = _find(connection, name)
    if row is None:
        raise AccessError(f"there is no user {name}: `drafthouse user list` lists them")
    return row
