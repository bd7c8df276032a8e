"""Keys for worker hosts: each host gets its own role in PostgreSQL, and the broker's user of that name, in one file.

`warehouse.app_db.worker_rights` says what the role may do. Whatever is killed half-way is done by doing it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit, urlunsplit

import redis
import sqlalchemy as sa

from host.settings import Settings
from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from warehouse.app_db import audit, worker_rights
from warehouse.app_db.engine import DATABASE_ERRORS, open_engine
from warehouse.bundles.store import policy_of_host

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
#: What Celery's consumer does: it hears wake-ups and looks, answers, and sends events. Keys and channels by pattern;
#: queues are named `engines@hardware`. No script, nothing about the server, no key of anybody else's.
_COMMANDS = [
    *("ping", "hello", "auth", "select", "client|setinfo", "client|setname", "multi", "exec", "watch", "unwatch"),
    *("brpop", "lpush", "llen", "del", "exists", "sadd", "srem", "smembers", "hset", "hget", "hdel", "zadd", "zrem"),
    *("zrange", "zscore", "zcard", "expire", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "publish"),
]
_KEYS = ["*@*", "*.reply.celery.pidbox", "_kombu.*", "unacked", "unacked_index"]
_CHANNELS = ("/{0}.celery.pidbox", "/{0}.celeryev/*")  # of a database
#: Where the object store is, in the environment of this process.
_STORE_PLACE = ("AWS_ENDPOINT_URL", "AWS_REGION")
#: PostgreSQL cuts longer names.
_MOST_BYTES = 63


@dataclass(frozen=True)
class Way:
    """How worker hosts reach database and broker: by which name, and the file there of the authority that vouches for
    them. None: as the page's host does.
    """

    at: str | None = None
    ca: Path | None = None


def enroll(settings: Settings, host: str, way: Way, *, actor: Actor) -> tuple[str, list[str]]:
    """Make keys for a worker host, and end those it had. Return the text of its file, and what is left to do.

    Raises UserError for a lab without a database server and a broker, or a name that cannot be one, and AccessError.
    """
    roles.require(actor, Change.HOSTS)
    if settings.own_broker_url is None:
        raise UserError("hosts elsewhere need a broker that they can reach: set DRAFTHOUSE_BROKER_URL")
    role, password = _role(settings, host), secrets.token_urlsafe(32)
    with _open_database(settings) as database:
        with database.begin() as connection:
            _make_role(connection, role, password)
            worker_rights.renew(connection)
            audit.record(connection, actor, Change.HOSTS, host, enrolled=True)
        with database.begin() as connection:
            _end_sessions(connection, role)
    with _broker(settings) as broker:
        number = broker.get_connection_kwargs().get("db") or 0
        broker.acl_deluser(role)  # ends its connections
        broker.acl_setuser(
            role,
            enabled=True,
            passwords=[f"+{password}"],
            commands=[f"+{command}" for command in _COMMANDS],
            keys=_KEYS,
            channels=[channel.format(number) for channel in _CHANNELS],
            reset=True,
        )
        remarks = _saved(broker)
    database_url, broker_url = _database_url(settings, way, role, password), _broker_url(settings, way, role, password)
    lines = {"DATABASE_URL": database_url, "BROKER_URL": broker_url}
    remarks += [
        f"{what} is reached without a checked certificate: --ca FILE demands one"
        for what, is_checked in (
            ("the database", "verify-full" in database_url),
            ("the broker", "rediss:" in broker_url),
        )
        if not is_checked
    ]
    lines, head = {f"DRAFTHOUSE_{name}": value for name, value in lines.items()}, ""
    if settings.bundles_url is not None:
        lines |= {"DRAFTHOUSE_BUNDLES": settings.bundles_url}
        lines |= {name: os.environ[name] for name in _STORE_PLACE if name in os.environ}
        head, remark = _store_key(settings.bundles_url, host)
        remarks.append(remark)
    first = f"# The keys of the worker host {host}, for its worker's user alone: `drafthouse worker --enrolled FILE`.\n"
    return first + head + "".join(f"{name}={value}\n" for name, value in lines.items()), remarks


def revoke(settings: Settings, host: str, *, actor: Actor) -> list[str]:
    """End a host's keys and its sessions; what it was running goes back to the queue with its lease. Return what is
    left to do.

    Raises UserError if it has no keys, and AccessError.
    """
    roles.require(actor, Change.HOSTS)
    role = _role(settings, host)
    with _open_database(settings) as database:
        with database.begin() as connection:  # committed first: no session may begin after they were ended
            quoted, had = _quoted(connection, role), _exists(connection, role)
            if had:
                group = _quoted(connection, worker_rights.group_role(connection))
                connection.exec_driver_sql(f"ALTER ROLE {quoted} NOLOGIN")
                connection.exec_driver_sql(f"REVOKE {group} FROM {quoted}")
                audit.record(connection, actor, Change.HOSTS, host, revoked=True)
        if had:
            with database.begin() as connection:
                _end_sessions(connection, role)
                connection.exec_driver_sql(f"DROP ROLE {quoted}")
    with _broker(settings) as broker:
        if not broker.acl_deluser(role) and not had:  # it ends connections, too
            raise UserError(f"{host} has no keys: `drafthouse worker enroll {host}` makes some")
        remarks = _saved(broker)
    return remarks + ([] if settings.bundles_url is None else ["the object store: end the host's key there, too"])


def _role(settings: Settings, host: str) -> str:
    if settings.app_database_file is not None:
        raise UserError("hosts elsewhere need a database server: set DRAFTHOUSE_DATABASE_URL to a PostgreSQL server")
    role = worker_rights.role_of(sa.make_url(settings.app_database_url).database, host)
    if not _NAME.fullmatch(host) or len(role.encode()) > _MOST_BYTES:
        most = _MOST_BYTES - len(role.encode()) + len(host)
        raise UserError(f"{host!r} is no host's name: write what `hostname` prints there, in {most} letters at most")
    return role


def _make_role(connection: sa.Connection, role: str, password: str) -> None:
    """Make the host's role, or give it this password. The server sees only the password's verifier."""
    group, quoted = worker_rights.group_role(connection), _quoted(connection, role)
    if not _exists(connection, group):
        connection.exec_driver_sql(f"CREATE ROLE {_quoted(connection, group)} NOLOGIN")
    driver = connection.connection.driver_connection
    assert driver is not None  # noqa: S101 - tells mypy
    verifier = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    verb = "ALTER" if _exists(connection, role) else "CREATE"
    connection.exec_driver_sql(f"{verb} ROLE {quoted} LOGIN PASSWORD '{verifier}'")
    connection.exec_driver_sql(f"GRANT {_quoted(connection, group)} TO {quoted}")


def _end_sessions(connection: sa.Connection, role: str) -> None:
    connection.exec_driver_sql(f"GRANT {_quoted(connection, role)} TO CURRENT_USER")  # else it may not end them
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = :role"
    connection.execute(sa.text(ended), {"role": role})
    connection.exec_driver_sql(f"REVOKE {_quoted(connection, role)} FROM CURRENT_USER")


def _exists(connection: sa.Connection, role: str) -> bool:
    return bool(connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}))


def _quoted(connection: sa.Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote_identifier(name)


@contextlib.contextmanager
def _open_database(settings: Settings) -> Iterator[sa.Engine]:
    """Reach the database. Raises UserError in place of its errors."""
    try:
        with open_engine(settings.app_database_url) as database:
            yield database
    except DATABASE_ERRORS as error:
        why = str(getattr(error, "orig", error)).partition("\n")[0]
        raise UserError(
            f"{why}: enroll and revoke with a database user that may make roles, that is a superuser's "
            "DRAFTHOUSE_DATABASE_URL or, from PostgreSQL 16 on, after `ALTER ROLE drafthouse CREATEROLE`"
        ) from None


def _database_url(settings: Settings, way: Way, role: str, password: str) -> str:
    url = sa.make_url(settings.app_database_url).set(username=role, password=password)
    if way.at is not None:
        url = url.difference_update_query(["host"]).set(host=way.at)
    if way.ca is not None:
        url = url.update_query_dict({"sslmode": "verify-full", "sslrootcert": str(way.ca)})
    return url.render_as_string(hide_password=False)


def _store_key(url: str, host: str) -> tuple[str, str]:
    """Return the comment of the file that asks for the host's key of the object store, and the sentence that says so.

    Keys of a store are made with its owner's tools. Ours never go to a worker host.
    """
    if not url.startswith("s3://"):
        return "", f"the object store {url}: give the host credentials of its own, as its provider makes them"
    policy = json.dumps(policy_of_host(url, host))
    asked = "# Make a key of the object store with this policy, and write it into the two lines below it:\n"
    asked += f"# {policy}\n# AWS_ACCESS_KEY_ID=...\n# AWS_SECRET_ACCESS_KEY=...\n"
    return asked, "the object store: make a key with the policy that is in the file, and write it there"


@contextlib.contextmanager
def _broker(settings: Settings) -> Iterator[redis.Redis]:
    """Reach the broker. Raises UserError in place of its errors."""
    try:
        with redis.Redis.from_url(settings.own_broker_url or "", socket_connect_timeout=5, socket_timeout=5) as broker:
            yield broker
    except redis.RedisError as error:
        raise UserError(
            f"the broker refuses: {error}. Once its URL is that of a user who may do everything, do it again"
        ) from None


def _saved(broker: redis.Redis) -> list[str]:
    """Store the broker's users, or say that it forgets them."""
    try:
        broker.acl_save()
    except redis.ResponseError:
        return [
            "the broker has no `aclfile`: it forgets its users when it starts again, so enroll or revoke then again"
        ]
    return []


def _broker_url(settings: Settings, way: Way, role: str, password: str) -> str:
    parts = urlsplit(settings.own_broker_url or "")
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    url = parts._replace(netloc=f"{role}:{password}@{way.at or name}{port}")
    if way.ca is not None:
        tls = {"ssl_cert_reqs": "required", "ssl_ca_certs": str(way.ca)}
        url = url._replace(scheme="rediss", query=urlencode(tls, safe="/"))
    return urlunsplit(url)
