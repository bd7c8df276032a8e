"""Guards every route: checks each request's host and origin, identifies the visitor, and adds
headers. Pure ASGI, because a websocket has to be refused before Streamlit accepts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, urlencode

from anyio import CapacityLimiter, to_thread
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnected
from streamlit.proto.BackMsg_pb2 import BackMsg

from access.addresses import network_of
from access.web import limits
from access.web.gate import ACTOR, AGAIN, GATE, Gate
from access.web.headers import page_headers, script_headers
from access.web.hosts import hosts_of
from access.web.limits import AtOnce, OpenPages, Pace
from access.web.page_sessions import LEAST_BYTES, PAGE_SESSIONS, UPLOADS, why_no_upload
from access.web.start_token import GONE, NoTokenError
from lab.errors import BusyError, UserError
from lab.roles import Actor
from warehouse.app_db.engine import DATABASE_ERRORS

#: Health checks, open under any host name and without a login; they reveal only that the server runs.
HEALTH = ("/healthz", "/readyz")
LOGIN, LOGOUT = "/login", "/logout"
#: Links that show one thing without a login.
SHARED = "/shared"
#: The same for printing, for signed-in visitors.
PRINT = "/print"
#: The client for notebooks, one file of Python.
CLIENT = "/drafthouse.py"
#: Streamlit's own metrics, refused because they reveal files and functions.
_CLOSED = ("/_stcore/metrics", "/_stcore/script-health-check")
_READING = ("GET", "HEAD", "OPTIONS")
#: How long a websocket may stay open after its session has ended: it is closed at its next message.
_POLL_INTERVAL_S = 2.0
TOKEN = "token"  # noqa: S105 - the name of a parameter
#: Look-ups have threads of their own, so that other waiting work keeps nobody from signing in.
_LOOK_UPS_AT_ONCE = 8
#: The most bytes of all headers and the address; browsers and proxies send far less.
_MOST_HEADER_BYTES = 64 * 1024
_WAREHOUSE = "/warehouse/"
#: Streamlit's own files, of which a browser shows none as a page.
_STATIC, _NO_DOCUMENTS = "/static/", (".js", ".css", ".woff2")
#: Far more than the fields of any page, or the files that somebody chooses at once.
_MOST_FIELDS = 5_000
#: What a page's browser may ask for. Streamlit would also clear the caches of everybody's pages, for whoever asks it.
_ASKED = (None, "rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request")
#: The header in which Streamlit's browser side sends a word, a token, and the session to resume.
_PROTOCOLS = b"sec-websocket-protocol"


class Guard:
    """`scripts` are the digests of those in the pages' HTML."""

    def __init__(self, app: ASGIApp, gate: Gate, scripts: Sequence[str]) -> None:
        self._app, self._gate, self._scripts = app, gate, scripts
        self._hosts = hosts_of(gate.settings)
        self._pace = Pace()
        self._pages = Pace(rate_per_s=limits.PAGES_PER_S, burst=limits.PAGES_BURST)
        self._passwords = Pace(rate_per_s=limits.PASSWORDS_PER_S, burst=limits.PASSWORDS_BURST)
        self._ranges = Pace(rate_per_s=limits.RANGES_PER_S, burst=limits.RANGES_BURST)
        self._open, self._requests = OpenPages(), AtOnce()
        self._looking_up = CapacityLimiter(_LOOK_UPS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            refusal = _too_long(scope) or await self._refusal(scope)
        except NoTokenError:
            refusal = PlainTextResponse(GONE, 503)
        if (pace := self._pace_of(scope, refusal)) is not None:
            refusal = await self._slow_down(scope, pace) or refusal
        elif refusal is None and (scope["type"] == "websocket" or _is_page(scope)):
            refusal = self._too_many_open(scope)
            if refusal is None and scope["type"] == "websocket":
                refusal = await self._slow_down(scope, self._pages)
        if scope["type"] == "http":
            with contextlib.ExitStack() as held:
                refusal = refusal or self._hold(scope, held)
                answer: ASGIApp = self._app if refusal is None else refusal
                await answer(scope, receive, self._with_headers(scope, send))
        elif refusal is not None:
            await _refuse_websocket(scope, send, refusal.status_code)
        else:
            scope["headers"] = [*self._without_foreign_session(scope)]
            with self._open.one_more(_visitor(scope)), contextlib.suppress(WebSocketDisconnected):  # hung up at once
                await self._app(scope, self._while_signed_in(scope, receive, send), send)

    def _pace_of(self, scope: Scope, refusal: Response | None) -> Pace | None:
        """Return the pace for this kind of request, and for all without a visitor; None if there is no limit here."""
        path: str = scope["path"]
        if scope["type"] != "http" or path in HEALTH:
            return None
        if scope["method"] == "POST" and path == LOGIN:
            return self._passwords
        if path.startswith(f"{PRINT}/"):
            return self._pages
        if path.startswith(limits.COUNTED) or (refusal is not None and ACTOR not in scope):
            return self._pace
        return self._ranges if path.startswith(_WAREHOUSE) else None

    def _hold(self, scope: Scope, held: contextlib.ExitStack) -> Response | None:
        """Count this request as its visitor's until it is answered; return a refusal if the visitor has too many."""
        if self._gate.is_open or scope["path"] in HEALTH:
            return self._hold_upload(scope, held)
        if self._requests.count(_visitor(scope)) >= limits.MOST_AT_ONCE:
            return PlainTextResponse("Too many requests at once: wait for the answers.", 429)
        held.enter_context(self._requests.one_more(_visitor(scope)))
        return self._hold_upload(scope, held)

    def _hold_upload(self, scope: Scope, held: contextlib.ExitStack) -> Response | None:
        """Accept files only for the visitor's own page with an uploader, if there is room."""
        if not scope["path"].startswith(UPLOADS) or scope["method"] not in ("PUT", "DELETE"):
            return None
        actor, length = self._actor(scope), Headers(scope=scope).get("content-length", "")
        if (why := why_no_upload(PAGE_SESSIONS, actor, scope["path"], scope["method"], length)) is not None:
            return PlainTextResponse(why[1], why[0])
        try:
            if actor is not None and scope["method"] == "PUT":
                held.enter_context(self._gate.account.holding(actor.name, max(int(length), LEAST_BYTES)))
        except BusyError as error:
            return PlainTextResponse(str(error), 429)
        return None

    def _actor(self, scope: Scope) -> Actor | None:
        """Return the visitor; the person at this machine in a lab without a login."""
        return self._gate.actor_of(None) if self._gate.is_open else scope.get(ACTOR)

    def _without_foreign_session(self, scope: Scope) -> Iterable[tuple[bytes, bytes]]:
        """Drop the session to resume from the headers unless it is the visitor's own, so that they get a new one."""
        actor = self._actor(scope)
        for name, value in scope["headers"]:
            parts = value.split(b",", 2)
            is_foreign = name == _PROTOCOLS and not (
                actor is not None
                and len(parts) == 3
                and PAGE_SESSIONS.belongs(parts[2].strip().decode("latin-1"), actor.name)
            )
            yield name, b",".join(parts[:2]) if is_foreign else value

    def _too_many_open(self, scope: Scope) -> Response | None:
        if self._gate.is_open or (why := self._open.why_none(_visitor(scope))) is None:
            return None
        return PlainTextResponse(why, 429, {"Retry-After": "30"})

    async def _slow_down(self, scope: Scope, pace: Pace) -> Response | None:
        """Delay a visitor who is too fast; return a refusal for one who is much too fast."""
        if self._gate.is_open:
            return None
        wait_s = pace.wait_s(_visitor(scope), 1.0 + _body_bytes(scope) / limits.BODY_BYTES)
        if wait_s is None:
            return PlainTextResponse("Too many requests: wait a moment.", 429, {"Retry-After": "5"})
        if wait_s:
            await asyncio.sleep(wait_s)
        return None

    async def _refusal(self, scope: Scope) -> Response | None:
        """Return the response that refuses the request; None if it may pass."""
        path = scope["path"]
        if path in HEALTH:
            return None
        refusal = self._refuse_address_or_origin(scope)
        if refusal is not None or _is_login(path) or _is_shared(scope):
            return refusal
        if self._gate.is_open and not _is_for_programs(path):
            return None
        token = _bearer(scope) if _is_for_programs(path) else None
        by_cookie = partial(self._gate.actor_of, self._cookie(scope))
        find_actor = by_cookie if token is None else partial(self._gate.actor_with, token)
        try:
            actor = await to_thread.run_sync(find_actor, limiter=self._looking_up)
        except NoTokenError:
            raise
        except (UserError, *DATABASE_ERRORS):
            return PlainTextResponse("The database does not answer: `drafthouse doctor` finds the cause.", 503)
        if actor is None:
            return self._to_login(scope)
        scope[ACTOR] = replace(actor, via="api") if _is_for_programs(path) else actor
        scope[GATE], scope[AGAIN] = self._gate, find_actor
        return None

    def _refuse_address_or_origin(self, scope: Scope) -> Response | None:
        """Refuse other host names and other sites' pages: browsers send the origin with websockets and with changes."""
        if scope["path"] in _CLOSED:
            return PlainTextResponse("Not found", 404)
        headers = Headers(scope=scope)
        host, origin = headers.get("host"), headers.get("origin")
        if not self._hosts.answers(host):
            return PlainTextResponse("This lab does not answer to that name: see DRAFTHOUSE_WEB_PUBLIC_HOSTS.", 403)
        has_origin = scope["type"] == "websocket" or (scope["method"] not in _READING and origin is not None)
        if has_origin and not self._hosts.trusts(origin, host):
            return PlainTextResponse(
                "Requests of other sites' pages are refused: see DRAFTHOUSE_WEB_PUBLIC_HOSTS.", 403
            )
        return None

    def _cookie(self, scope: Scope) -> str | None:
        return HTTPConnection(scope).cookies.get(self._gate.cookie)

    def _to_login(self, scope: Scope) -> Response:
        """Redirect a page request to the login and back; refuse anything else."""
        if _is_for_programs(scope["path"]):
            return _api_refusal()
        if scope["type"] == "websocket" or scope["method"] != "GET" or _is_part_of_a_page(scope):
            return PlainTextResponse("Sign in first.", 401)
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
        settings, host = self._gate.settings, Headers(scope=scope).get("host", "")
        if scope["path"].startswith(_STATIC) and scope["path"].endswith(_NO_DOCUMENTS):
            added = script_headers(settings)
        else:
            added = page_headers(settings, host if self._hosts.answers(host) else "", self._scripts)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in added if name not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return sending

    def _while_signed_in(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """Passes on what a page's browser may ask for, within the pace, until the first message after the session's
        end.
        """
        if self._gate.is_open:
            return receive
        cookie, looked_s = self._cookie(scope), time.monotonic()

        async def receiving() -> Message:
            nonlocal looked_s
            message, is_asked = await receive(), False
            while message["type"] == "websocket.receive" and not is_asked:
                sent = _back_message(message.get("bytes") or b"")
                if _is_too_large(sent):
                    await send({"type": "websocket.close", "code": 1009, "reason": "too many fields"})
                    return {"type": "websocket.disconnect", "code": 1009}
                await self._wait_for_turn(scope, sent)
                if not (is_asked := sent.WhichOneof("type") in _ASKED):
                    message = await receive()
            if message["type"] != "websocket.receive" or time.monotonic() - looked_s < _POLL_INTERVAL_S:
                return message
            looked_s = time.monotonic()
            try:
                if await to_thread.run_sync(self._gate.actor_of, cookie, limiter=self._looking_up) is not None:
                    return message
            except (UserError, *DATABASE_ERRORS):
                return message  # the page checks again before it shows anything, and reports the problem
            await send({"type": "websocket.close", "code": 1008, "reason": "signed out"})
            return {"type": "websocket.disconnect", "code": 1008}

        return receiving

    async def _wait_for_turn(self, scope: Scope, sent: BackMsg) -> None:
        """Delay an open page's messages to the pace; none is lost, however long it takes."""
        is_allowed, counts = False, limits.PART_OF_PAGE if _renews_itself(sent) else 1.0
        while not is_allowed:
            wait_s = self._pages.wait_s(_visitor(scope), counts)
            is_allowed = wait_s is not None
            await asyncio.sleep(limits.LONGEST_WAIT_S if wait_s is None else wait_s)


def set_cookie(response: Response, gate: Gate, value: str, name: str = "", lasts_s: int | None = None) -> None:
    """Set a cookie until the browser closes, or for a time; hidden from scripts and not sent by other sites' pages.

    It is the session's cookie unless another `name` is given.
    """
    options = {"path": "/", "secure": gate.settings.web_https, "httponly": True, "max_age": lasts_s}
    response.set_cookie(name or gate.cookie, value, samesite="lax", **options)  # type: ignore[arg-type]


def local_path(target: str) -> str:
    """Return where to go after signing in: a path of ours; the first page in place of a foreign address."""
    is_ours = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()
    return target if is_ours and not target.startswith((LOGIN, LOGOUT)) else "/"


def _visitor(scope: Scope) -> str:
    actor, client = scope.get(ACTOR), scope.get("client")
    return f"user {actor.name}" if actor else f"address {network_of(client[0]) if client else ''}"


def _back_message(message: bytes) -> BackMsg:
    """Parse a browser's message; return an empty one if Streamlit could not parse it and will refuse it."""
    sent = BackMsg()
    with contextlib.suppress(DecodeError):
        sent.ParseFromString(message)
    return sent


def _is_too_large(sent: BackMsg) -> bool:
    """Return whether a message has more parts than a browser sends: each is answered or stored on the event loop."""
    asked = sent.rerun_script
    parts = (asked.widget_states.widgets, asked.cached_message_hashes, sent.file_urls_request.file_names)
    return len(asked.query_string) > _MOST_HEADER_BYTES or max(map(len, parts)) > _MOST_FIELDS


def _renews_itself(sent: BackMsg) -> bool:
    """Return whether a browser requests a timed rerun of a part of its page."""
    return bool(sent.rerun_script.fragment_id) and sent.rerun_script.is_auto_rerun


def _body_bytes(scope: Scope) -> int:
    """Return the size of the body that counts; files have limits of their own."""
    length = Headers(scope=scope).get("content-length", "")
    return min(int(length), limits.LONGEST_COUNTED) if length.isdecimal() and len(length) < 20 else 0


def _too_long(scope: Scope) -> Response | None:
    long = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope.get("raw_path") or b"")
    if long + len(scope["query_string"]) <= _MOST_HEADER_BYTES:
        return None
    return PlainTextResponse(f"The headers and the address are longer than {_MOST_HEADER_BYTES // 1024} KiB.", 431)


def _is_page(scope: Scope) -> bool:
    """Return whether a browser requests a page, which opens a websocket next."""
    path: str = scope["path"]
    is_other = path in HEALTH or _is_login(path) or _is_shared(scope) or _is_for_programs(path)
    return scope["method"] == "GET" and not is_other and not _is_part_of_a_page(scope)


def _is_login(path: str) -> bool:
    return path in (LOGIN, LOGOUT) or path.startswith(f"{LOGIN}/")


def _is_shared(scope: Scope) -> bool:
    """Return whether this is a route of shared links, which only read."""
    path: str = scope["path"]
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and path.startswith(f"{SHARED}/")


def _is_for_programs(path: str) -> bool:
    """Return whether this route accepts a token, too."""
    return path.startswith(("/api/v1/", "/warehouse/")) or path == CLIENT


def _bearer(scope: Scope) -> str | None:
    """Return the token of a program."""
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _api_refusal() -> Response:
    """Return the refusal as problem details, like every error of the API."""
    detail = "send a token as `Authorization: Bearer ...`: `drafthouse token add` makes one"
    body = {"type": "about:blank", "title": "Sign in first", "status": 401, "detail": detail}
    return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"}, "application/problem+json")


def _is_part_of_a_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.startswith(("/_stcore/", "/media/", "/static/", "/component/", "/api/"))


async def _refuse_websocket(scope: Scope, send: Send, status: int) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})
