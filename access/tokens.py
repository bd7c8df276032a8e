"""Tokens with which programs use the API in a user's name, with at most a given role, until an end date.

Only a token's digest is stored; the token itself is shown once, when it is made.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from access import passwords
from access.accounts import is_present
from lab import roles
from lab.errors import AccessError
from lab.roles import Actor, Change, Role
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import api_tokens, users

#: The prefix of every token, by which one is recognised in a shared file or log.
PREFIX = "drafthouse_"
LASTS, LASTS_AT_MOST = timedelta(days=90), timedelta(days=366)
MOST_LABEL = 100
#: How many working tokens a user may have at once.
MOST_TOKENS = 100
#: How often a token's last use is written.
_SEEN_EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class Token:
    """The parts of a token that may be shown."""

    token_id: str
    name: str  # of its user
    label: str  # what it is for
    role: Role  # the most it may have; its user's role if that is less
    created_at: datetime
    ends_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


def add_token(
    engine: sa.Engine, name: str, label: str, role: Role, *, lasts: timedelta = LASTS, actor: Actor
) -> tuple[Token, str]:
    """Make a token for a user: one's own, or anybody's for an administrator. Returns it with its secret.

    Raises AccessError for an unknown user, for more than the user's or the actor's own role, for a time that
    is not positive or longer than a year, and for too many tokens.
    """
    roles.require(actor, Change.TOKENS, name)
    if not timedelta(0) < lasts <= LASTS_AT_MOST:
        raise AccessError(f"a token may last more than 0 and at most {LASTS_AT_MOST.days} days: not {lasts.days} days")
    if not label.strip() or len(label) > MOST_LABEL or not label.isprintable():
        raise AccessError(f"say what the token is for, in one line of at most {MOST_LABEL} characters")
    secret, now = PREFIX + passwords.new_secret(), datetime.now(UTC)
    token = Token(secrets.token_hex(4), name, label.strip(), role, now, now + lasts, None, None)
    with engine.begin() as connection:
        user = connection.execute(sa.select(users).where(users.c.name == name)).one_or_none()
        if user is None or user.disabled_at is not None:
            raise AccessError(f"there is no user {name!r} who may sign in: `drafthouse user list` shows them")
        if role.rank > min(Role(user.role).rank, actor.role.rank):
            raise AccessError(f"a token cannot do more than its user and its maker: {name} is a {user.role}")
        working = (api_tokens.c.name == name, api_tokens.c.revoked_at.is_(None), api_tokens.c.ends_at > now)
        count = sa.select(sa.func.count()).select_from(api_tokens).where(*working)
        if (connection.scalar(count) or 0) >= MOST_TOKENS:
            raise AccessError(f"{name} has {MOST_TOKENS} tokens that work: end some of them first")
        connection.execute(api_tokens.insert().values(vars(token) | {"token_hash": passwords.digest(secret)}))
        audit.record(connection, actor, Change.TOKENS, name, token=token.token_id, label=token.label, role=role.value)
    return token, secret


def actor_of(engine: sa.Engine, secret: str, *, absent_after: timedelta | None = None) -> Actor | None:
    """Return the token's user, with the lesser of both roles; None if it is unknown, has ended, or its user has not
    signed in for the time `absent_after`.
    """
    now = datetime.now(UTC)
    valid = (api_tokens.c.revoked_at.is_(None), api_tokens.c.ends_at > now, users.c.disabled_at.is_(None))
    query = sa.select(api_tokens, users.c.role.label("user_role")).join(users)
    with reading(engine).connect() as connection:
        this = query.where(api_tokens.c.token_hash == passwords.digest(secret), *valid, is_present(absent_after))
        row = connection.execute(this).one_or_none()
    if row is None:
        return None
    if row.last_used_at is None or now - row.last_used_at > _SEEN_EVERY:
        with engine.begin() as connection:
            used = api_tokens.update().where(api_tokens.c.token_id == row.token_id)
            connection.execute(used.values(last_used_at=now))
    return Actor(row.name, min(Role(row.role), Role(row.user_role), key=lambda role: role.rank), "api")


def all_tokens(engine: sa.Engine, name: str | None = None) -> list[Token]:
    """Return the tokens of one user or of all, ended ones included, the newest first."""
    query = sa.select(api_tokens).order_by(api_tokens.c.created_at.desc(), api_tokens.c.token_id)
    with reading(engine).connect() as connection:
        rows = connection.execute(query if name is None else query.where(api_tokens.c.name == name)).mappings()
        return [_token(row) for row in rows]


def revoke(engine: sa.Engine, token_id: str, *, actor: Actor) -> Token:
    """End a token at once. Raises AccessError if there is none, or if it is not the actor's to end."""
    with engine.begin() as connection:
        found = (
            connection.execute(sa.select(api_tokens).where(api_tokens.c.token_id == token_id)).mappings().one_or_none()
        )
        if found is None:
            raise AccessError(f"there is no token {token_id!r}: `drafthouse token list` shows them")
        roles.require(actor, Change.TOKENS, found["name"])
        if found["revoked_at"] is None:
            now = datetime.now(UTC)
            connection.execute(api_tokens.update().where(api_tokens.c.token_id == token_id).values(revoked_at=now))
            audit.record(connection, actor, Change.TOKENS, found["name"], revoked=token_id)
    return _token(found)


def _token(row: sa.RowMapping) -> Token:
    values = {name: value for name, value in row.items() if name != "token_hash"}
    return Token(**values | {"role": Role(values["role"])})
