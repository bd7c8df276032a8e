"""Stands before everything that answers: checks each request's host and origin, asks who it comes from, and adds
headers. Pure ASGI, because a websocket has to be refused before Streamlit accepts it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.errors import UserError
from webapp.access.gate import ACTOR, GATE, Gate
from webapp.access.headers import page_headers
from webapp.access.hosts import hosts_of
from webapp.access.pace import COUNTED, Pace

#: Whoever runs the server asks these, by whatever name and without a login; they say nothing but that it runs.
HEALTH = ("/healthz", "/readyz")
LOGIN, LOGOUT = "/login", "/logout"
#: Links that show one thing without a login.
SHARED = "/shared"
#: The client for notebooks, one file of Python.
CLIENT = "/drafthouse.py"
#: Streamlit's own figures name files and functions.
_CLOSED = ("/_stcore/metrics", "/_stcore/script-health-check")
_READING = ("GET", "HEAD", "OPTIONS")
#: How long a websocket may go on after its session has ended: it is closed at its next message.
_LOOK_EVERY_S = 2.0
TOKEN = "token"  # noqa: S105 - the name of a parameter


class Guard:
    """`scripts` are the digests of what stands in the pages' HTML."""

    def __init__(self, app: ASGIApp, gate: Gate, scripts: Sequence[str]) -> None:
        self._app, self._gate, self._scripts = app, gate, scripts
        self._hosts = hosts_of(gate.settings)
        self._pace = Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        if scope["type"] == "http" and scope["path"].startswith(COUNTED):
            refusal = await self._slow_down(scope) or refusal
        if scope["type"] == "http":
            answer: ASGIApp = self._app if refusal is None else refusal
            await answer(scope, receive, self._with_headers(scope, send))
        elif refusal is not None:
            await _refuse_websocket(scope, send, refusal.status_code)
        else:
            await self._app(scope, self._while_signed_in(scope, receive, send), send)

    async def _slow_down(self, scope: Scope) -> Response | None:
        """Let who asks too fast wait; or the answer to one who asks much too fast."""
        if self._gate.is_open:
            return None
        actor, client = scope.get(ACTOR), scope.get("client")
        wait_s = self._pace.wait_s(f"user {actor.name}" if actor else f"address {client[0] if client else ''}")
        if wait_s is None:
            return PlainTextResponse("Too many requests: wait a moment.", 429, {"Retry-After": "5"})
        if wait_s:
            await asyncio.sleep(wait_s)
        return None

    async def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further; None if it may."""
        path = scope["path"]
        if path in HEALTH:
            return None
        if (
            (refusal := self._wrong_door(scope, Headers(scope=scope))) is not None
            or _is_login(path)
            or _is_shared(scope)
        ):
            return refusal
        if self._gate.is_open and not _is_for_programs(path):
            return None
        token = _bearer(scope) if _is_for_programs(path) else None
        try:
            if token is None:
                actor = await run_in_threadpool(self._gate.actor_of, self._cookie(scope))
            else:
                actor = await run_in_threadpool(self._gate.actor_with, token)
        except (UserError, sa.exc.DBAPIError):
            return _plain(503, "The database does not answer: `drafthouse doctor` finds the cause.")
        if actor is None:
            return self._to_login(scope)
        scope[ACTOR] = replace(actor, via="api") if _is_for_programs(path) else actor
        scope[GATE] = self._gate
        return None

    def _wrong_door(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["path"] in _CLOSED:
            return _plain(404, "Not found")
        if not self._hosts.answers(headers.get("host")):
            return _plain(403, "This lab does not answer to that name: see DRAFTHOUSE_WEB_PUBLIC_HOSTS.")
        if self._is_foreign(scope, headers):
            return _plain(403, "Requests of other sites' pages are refused: see DRAFTHOUSE_WEB_PUBLIC_HOSTS.")
        return None

    def _is_foreign(self, scope: Scope, headers: Headers) -> bool:
        """Browsers name the origin of every websocket, and of every request that may change something."""
        origin, host = headers.get("origin"), headers.get("host")
        if scope["type"] == "websocket":
            return not self._hosts.trusts(origin, host)
        return scope["method"] not in _READING and origin is not None and not self._hosts.trusts(origin, host)

    def _cookie(self, scope: Scope) -> str | None:
        return HTTPConnection(scope).cookies.get(self._gate.cookie)

    def _to_login(self, scope: Scope) -> Response:
        """A page that is opened leads to the login and back; anything else is refused."""
        if _is_for_programs(scope["path"]):
            return _api_refusal()
        if scope["type"] == "websocket" or scope["method"] != "GET" or _is_part_of_a_page(scope):
            return _plain(401, "Sign in first.")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == TOKEN), None)
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        target = f"{scope['path']}?{rest}" if rest else scope["path"]
        if self._gate.settings.web_login == "token" and token is not None and self._gate.is_start_token(token):
            response = RedirectResponse(local_path(target), 303)
            set_cookie(response, self._gate, self._gate.token_cookie())
            return response
        return RedirectResponse(f"{LOGIN}?{urlencode({'next': target})}", 303)

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        host = Headers(scope=scope).get("host", "")
        added = page_headers(self._gate.settings, host if self._hosts.answers(host) else "", self._scripts)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in added if name not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return sending

    def _while_signed_in(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """Ends the websocket at the first message after its session has ended."""
        if self._gate.is_open:
            return receive
        cookie, looked_s = self._cookie(scope), time.monotonic()

        async def receiving() -> Message:
            nonlocal looked_s
            message = await receive()
            if message["type"] != "websocket.receive" or time.monotonic() - looked_s < _LOOK_EVERY_S:
                return message
            looked_s = time.monotonic()
            if await run_in_threadpool(self._gate.actor_of, cookie) is not None:
                return message
            await send({"type": "websocket.close", "code": 1008, "reason": "signed out"})
            return {"type": "websocket.disconnect", "code": 1008}

        return receiving


def set_cookie(response: Response, gate: Gate, value: str, name: str = "", lasts_s: int | None = None) -> None:
    """Kept until the browser is closed, or so long; scripts do not see it, and other sites' pages do not send it along.

    It is the session's, unless it has another `name`.
    """
    options = {"path": "/", "secure": gate.settings.web_https, "httponly": True, "max_age": lasts_s}
    response.set_cookie(name or gate.cookie, value, samesite="lax", **options)  # type: ignore[arg-type]


def local_path(target: str) -> str:
    """Where to go after signing in: a path of ours, or the first page instead of an address of elsewhere."""
    is_ours = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()
    return target if is_ours and not target.startswith((LOGIN, LOGOUT)) else "/"


def _is_login(path: str) -> bool:
    return path in (LOGIN, LOGOUT) or path.startswith(f"{LOGIN}/")


def _is_shared(scope: Scope) -> bool:
    """Below this address nothing but the routes of shared links answers, and they only read."""
    path: str = scope["path"]
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and path.startswith(f"{SHARED}/")


def _is_for_programs(path: str) -> bool:
    """Whether a token opens it, too."""
    return path.startswith(("/api/v1/", "/warehouse/")) or path == CLIENT


def _bearer(scope: Scope) -> str | None:
    """The token of a program."""
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _api_refusal() -> Response:
    """As problem details, like every error of the API."""
    detail = "send a token as `Authorization: Bearer ...`: `drafthouse token add` makes one"
    body = {"type": "about:blank", "title": "Sign in first", "status": 401, "detail": detail}
    return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"}, "application/problem+json")


def _is_part_of_a_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.startswith(("/_stcore/", "/media/", "/static/", "/component/", "/api/"))


def _plain(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, status)


async def _refuse_websocket(scope: Scope, send: Send, status: int) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})
