"""Identifies a browser by its cookie, for the server's guard and for the pages."""

from __future__ import annotations

import functools
import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from typing import Literal

import sqlalchemy as sa

from access import sessions, tokens
from access.local import local_actor
from access.web import start_token
from access.web.limits import HeldBytes
from access.web.page_sessions import PAGE_SESSIONS
from host.process_memory import limit_bytes
from host.settings import Settings, load_settings
from lab.roles import Actor
from warehouse.app_db.engine import app_engine

#: Keys of a request's scope: the visitor, the gate that let them in, and a function that checks again.
ACTOR, GATE, AGAIN = "drafthouse.actor", "drafthouse.gate", "drafthouse.again"
#: For this long a session's user is cached: a disabled user gets in for that long at most.
FRESH_S = 1.0
#: No cookie or token that we issue is longer.
LONGEST_SECRET = 200
_MOST_REMEMBERED = 10_000
#: The kinds of secrets: a session is for the pages, a token for the API.
_Kind = Literal["session", "token"]
_Key = tuple[_Kind, bytes]


class Gate:
    """Safe to use from any thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._answers: dict[_Key, tuple[float, Actor | None]] = {}
        #: Half of the page's memory: the other half is for what it shows.
        self.account = HeldBytes(limit_bytes(settings.web_memory_mib) // 2, PAGE_SESSIONS.uploaded_bytes)

    @property
    def is_open(self) -> bool:
        """Return whether the lab has no login."""
        return self.settings.web_login == "none"

    @property
    def has_users(self) -> bool:
        """Return whether visitors are users of this lab, not simply the person at this machine."""
        return self.settings.web_login in ("accounts", "oidc")

    @functools.cached_property
    def engine(self) -> sa.Engine:
        return app_engine(self.settings.app_database_url)

    @property
    def cookie(self) -> str:
        """Return the cookie's name, with the port, because browsers send a host's cookies to all of its ports."""
        return "__Host-drafthouse" if self.settings.web_https else f"drafthouse-{self.settings.web_port}"

    def actor_of(self, cookie: str | None) -> Actor | None:
        """Return the visitor with this cookie; None if they must sign in. Raises UserError if the database cannot be
        reached.
        """
        if self.is_open:
            return local_actor("page")
        if not cookie or len(cookie) > LONGEST_SECRET or cookie.startswith(tokens.PREFIX):
            return None
        if not self.has_users:
            return local_actor("page") if self.is_token_cookie(cookie) else None
        return self._looked_up("session", cookie, sessions.actor_of)

    def actor_with(self, token: str) -> Actor | None:
        """Return the API user with this token, which may be the start's token; None if it is not valid."""
        if self.is_open:
            return local_actor("api")
        if len(token) > LONGEST_SECRET:
            return None
        if not self.has_users:
            return local_actor("api") if self.is_start_token(token) else None
        if not token.startswith(tokens.PREFIX):
            return None
        actor_of = functools.partial(tokens.actor_of, absent_after=self.settings.absent_after)
        return self._looked_up("token", token, actor_of)

    def _looked_up(self, kind: _Kind, secret: str, actor_of: Callable[[sa.Engine, str], Actor | None]) -> Actor | None:
        key = _key(kind, secret)
        with self._lock:
            at_s, known = self._answers.get(key, (float("-inf"), None))
        if time.monotonic() - at_s < FRESH_S:
            return known
        actor = actor_of(self.engine, secret)
        with self._lock:
            if len(self._answers) >= _MOST_REMEMBERED:
                self._answers.clear()
            self._answers[key] = (time.monotonic(), actor)
        return actor

    def forget(self, cookie: str) -> None:
        """Drop the cached visitor of this cookie."""
        with self._lock:
            self._answers.pop(_key("session", cookie), None)

    def is_start_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), start_token.read(self.settings.start_token_file).encode())

    def token_cookie(self) -> str:
        """Return the cookie for a browser that presented the start's token; the token cannot be derived from it."""
        token = start_token.read(self.settings.start_token_file)
        return hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()

    def is_token_cookie(self, cookie: str) -> bool:
        return hmac.compare_digest(cookie.encode(), self.token_cookie().encode())


def _key(kind: _Kind, secret: str) -> _Key:
    """Return the cache key of a secret, which does not reveal it."""
    return kind, hashlib.sha256(secret.encode()).digest()


@functools.cache
def gate() -> Gate:
    return Gate(load_settings())
