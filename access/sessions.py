"""Sessions of signed-in users: a random secret in the browser's cookie, of which only the digest is stored.

A session ends when its user signs out or is disabled, or signs in on too many other browsers, a while after it was last
used, and at the latest a week after it began. Wrong passwords are counted by name and by address. At an address
from which the user signed in before, only tries from there count.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from access import passwords
from access.addresses import network_of
from lab.errors import AccessError
from lab.roles import Actor, Role
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import login_addresses, login_failures, sessions, users

LASTS, LASTS_UNUSED = timedelta(days=7), timedelta(hours=24)
#: The most sessions of one user: signing in once more ends the least recently used one.
MOST_SESSIONS = 20
#: How often a session's last use is written.
_SEEN_EVERY = timedelta(minutes=5)
#: Wrong passwords within `WINDOW` before the next try has to wait: from one address for one name, for one name from
#: anywhere, and from one address for any name (many people may share a proxy's).
WINDOW = timedelta(minutes=15)
MOST_PAIR, MOST_NAME, MOST_ADDRESS = 5, 50, 100
MOST_CHARACTERS = 100
#: How long, and how many, addresses of a user's sign-ins are remembered.
KNOWN_FOR, MOST_KNOWN = timedelta(days=90), 20
#: The actor of a failed attempt to sign in.
NOBODY = Actor("nobody", Role.VIEWER)
_WRONG = "the name or the password is wrong"


def sign_in(engine: sa.Engine, name: str, password: str, address: str) -> str:
    """Return the secret of a new session. Raises AccessError, with the same sentence whatever is wrong."""
    name = name[:MOST_CHARACTERS]
    stored = _right_password(engine, name, password, address)
    return begin(engine, name, address, password_hash=stored)


def change_password(engine: sa.Engine, name: str, old: str, new: str, address: str) -> None:
    """Change the password of a user who gives the old one, and end all of their sessions.

    Raises AccessError for a wrong or unusable password; wrong ones are counted as at signing in.
    """
    stored = _right_password(engine, name, old, address)
    hashed = passwords.hash_password(new)
    with engine.begin() as connection:
        user = _user(connection, name, stored)
        connection.execute(users.update().where(users.c.name == name).values(password_hash=hashed))
        connection.execute(sessions.delete().where(sessions.c.name == name))
        audit.record(connection, Actor(name, Role(user.role)), "password.set", name)


def _right_password(engine: sa.Engine, name: str, password: str, address: str) -> str:
    """Return the stored hash of the user's password if it is this one. Raises AccessError."""
    network, now = network_of(address), datetime.now(UTC)
    pair = f"pair:{name}@{network}"
    limits = {pair: MOST_PAIR}
    if not is_known(engine, name, address):
        limits |= {f"name:{name}": MOST_NAME, f"address:{network}": MOST_ADDRESS}
    _count_try(engine, limits, now)
    with reading(engine).connect() as connection:
        user = connection.execute(sa.select(users).where(users.c.name == name)).one_or_none()
    stored: str | None = None if user is None else user.password_hash
    is_right = passwords.is_password(stored, password)
    if user is None or stored is None or not is_right or user.disabled_at is not None:
        with engine.begin() as connection:
            audit.record(connection, NOBODY, "session.refused", name, address=address)
        raise AccessError(_WRONG)
    with engine.begin() as connection:
        this_try = sa.and_(login_failures.c.key.in_(limits), login_failures.c.at == now)
        connection.execute(login_failures.delete().where(sa.or_(login_failures.c.key == pair, this_try)))
    return stored


def is_known(engine: sa.Engine, name: str, address: str) -> bool:
    """Return whether the user signed in from this address, or its /64, within `KNOWN_FOR`: others cannot block it."""
    this = (login_addresses.c.name == name, login_addresses.c.address == network_of(address))
    recent = login_addresses.c.came_in_at > datetime.now(UTC) - KNOWN_FOR
    with reading(engine).connect() as connection:
        return connection.scalar(sa.select(login_addresses.c.name).where(*this, recent)) is not None


def _user(connection: sa.Connection, name: str, password_hash: str | None) -> sa.Row[tuple[object, ...]]:
    """Return the user, whom nobody changes until the transaction ends. Raises AccessError for a disabled one, and if
    the password was changed after it was compared with this hash: the change ends all sessions, and none may follow.
    """
    user = connection.execute(sa.select(users).where(users.c.name == name).with_for_update()).one()
    if user.disabled_at is not None or password_hash not in (None, user.password_hash):
        raise AccessError(_WRONG)
    return user


def begin(engine: sa.Engine, name: str, address: str, *, password_hash: str | None = None) -> str:
    """Return the secret of a new session of a user who has shown who they are, by the password of this hash if by one.

    Raises AccessError if the user is disabled or the password is no longer theirs.
    """
    secret, now = passwords.new_secret(), datetime.now(UTC)
    row = {"token_hash": passwords.digest(secret), "name": name, "created_at": now, "last_seen": now}
    with engine.begin() as connection:
        user = _user(connection, name, password_hash)
        connection.execute(sessions.delete().where(sessions.c.ends_at < now))
        actor = Actor(name, Role(user.role))
        _end_oldest(connection, actor)
        connection.execute(sessions.insert().values(row | {"ends_at": now + LASTS}))
        connection.execute(users.update().where(users.c.name == name).values(came_in_at=now))
        _remember_address(connection, name, network_of(address), now)
        audit.record(connection, actor, "session.begin", name, address=address)
    return secret


def _remember_address(connection: sa.Connection, name: str, network: str, now: datetime) -> None:
    """Store the address from which the user signed in, and forget their oldest ones."""
    own = login_addresses.c.name == name
    connection.execute(login_addresses.delete().where(own, login_addresses.c.address == network))
    older = sa.select(login_addresses.c.address).where(own).order_by(login_addresses.c.came_in_at.desc())
    too_many = list(connection.scalars(older.offset(MOST_KNOWN - 1)))
    connection.execute(login_addresses.delete().where(own, login_addresses.c.address.in_(too_many)))
    connection.execute(login_addresses.insert().values(name=name, address=network, came_in_at=now))


def _end_oldest(connection: sa.Connection, actor: Actor) -> None:
    """Leave room for one more session."""
    own = sa.select(sessions.c.token_hash).where(sessions.c.name == actor.name).order_by(sessions.c.last_seen.desc())
    too_many = list(connection.scalars(own.offset(MOST_SESSIONS - 1)))
    if too_many:
        connection.execute(sessions.delete().where(sessions.c.token_hash.in_(too_many)))
        audit.record(connection, actor, "session.end", actor.name, reason=f"{MOST_SESSIONS} others are open")


def actor_of(engine: sa.Engine, secret: str) -> Actor | None:
    """Return the user of an open session, with their current role; None if there is no such session."""
    key, now = passwords.digest(secret), datetime.now(UTC)
    alive = (sessions.c.ends_at > now, sessions.c.last_seen > now - LASTS_UNUSED, users.c.disabled_at.is_(None))
    query = sa.select(sessions.c.last_seen, users.c.name, users.c.role).join(users)
    with reading(engine).connect() as connection:
        row = connection.execute(query.where(sessions.c.token_hash == key, *alive)).one_or_none()
    if row is None:
        return None
    if now - row.last_seen > _SEEN_EVERY:
        with engine.begin() as connection:
            connection.execute(sessions.update().where(sessions.c.token_hash == key).values(last_seen=now))
    return Actor(row.name, Role(row.role))


def end(engine: sa.Engine, secret: str) -> None:
    """Sign out; a session that has ended already is left as it is."""
    actor = actor_of(engine, secret)
    with engine.begin() as connection:
        connection.execute(sessions.delete().where(sessions.c.token_hash == passwords.digest(secret)))
        if actor is not None:
            audit.record(connection, actor, "session.end", actor.name)


def _count_try(engine: sa.Engine, limits: dict[str, int], now: datetime) -> None:
    """Count the try as wrong before checking it, so that parallel tries gain nothing over sequential ones."""
    counted = sa.select(login_failures.c.key, sa.func.count()).group_by(login_failures.c.key)
    with engine.begin() as connection:
        connection.execute(login_failures.delete().where(login_failures.c.at < now - WINDOW))
        rows = connection.execute(counted.where(login_failures.c.key.in_(limits)))
        tries = {key: number for key, number in rows}  # noqa: C416 - rows are no pairs to mypy
        if any(tries.get(key, 0) >= most for key, most in limits.items()):
            minutes = int(WINDOW.total_seconds() // 60)
            raise AccessError(f"too many wrong passwords: wait {minutes} minutes, then try again")
        connection.execute(login_failures.insert(), [{"key": key, "at": now} for key in limits])
