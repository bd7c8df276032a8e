"""Limits of each request of the API, by its route: bytes and values of the body, and requests at once of a visitor."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from access.web.limits import HeldBytes
from interchange.files import MIB
from lab import roles
from lab.errors import BusyError
from lab.roles import Change
from webapp.api.calls import Call, authorised_call

#: The most bytes of a JSON body, unless the route takes more.
MOST_JSON_BYTES = 200_000
#: A study of the greatest size has a few thousand; a million takes seconds of the page to read.
MOST_VALUES = 20_000
#: How long a body of JSON may take to come.
_BODY_S = 30.0
#: Operations that are answered at once in threads, of all visitors and of one. Streamlit's files need threads, too.
_TURNS, _TURNS_EACH = 12, 4
#: Uploads have threads of their own, as they may take long.
READING_FILES = CapacityLimiter(4)
#: Responses count against their visitor until they are sent, unless they are small.
_SMALL_BYTES = 64 * 1024
#: A text of JSON, even one without an end; commas and brackets in it do not separate values.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Body:
    most_bytes: int = MOST_JSON_BYTES
    files_for: Change | None = None  # it is files, and for those who may make this change


_BODIES: dict[object, _Body] = {}


def takes(most_bytes: int, files_for: Change | None = None) -> Callable[[_Endpoint], _Endpoint]:
    """Set the length of an operation's JSON body, or allow uploads, which it reads itself, for visitors with this
    right.
    """

    def mark(endpoint: _Endpoint) -> _Endpoint:
        _BODIES[endpoint] = _Body(most_bytes, files_for)
        return endpoint

    return mark


class Operation(APIRoute):
    """One operation of the API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        body = _BODIES.get(self.endpoint, _Body())
        waits_in_thread = not inspect.iscoroutinefunction(self.endpoint)

        async def answer(request: Request) -> Response:
            call = authorised_call(request)
            length = _length(request, body)
            if body.files_for is not None:
                roles.require(call.actor, body.files_for, is_new=True)
                with call.gate.account.holding(call.actor.name, length):
                    return await handle(request)
            sent = _Json(request.scope, request.receive)
            await _read(sent)
            if waits_in_thread:
                turns: Turns = request.app.state.turns
                async with turns.one(call.actor.name):
                    response = await handle(sent)
            else:
                response = await handle(sent)
            return await _held(call, response)

        return answer


class _Json(Request):
    """A request whose body is parsed in a thread."""

    async def json(self) -> Any:
        return await run_in_threadpool(json.loads, await self.body())


def _length(request: Request, body: _Body) -> int:
    """Return the declared length of the body, which the server enforces. Refuses a missing or too long one."""
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:
        raise HTTPException(411, "send the body with its length")
    if not length.isdecimal() or int(length) > body.most_bytes:
        most = body.most_bytes
        limit = f"{most // MIB} MiB" if most >= MIB else f"{most // 1000} kB"
        raise HTTPException(413, f"the body is longer than {limit}")
    return int(length)


async def _read(request: Request) -> None:
    """Read a JSON body. Refuses a slow body, or too many values."""
    try:
        async with asyncio.timeout(_BODY_S):
            sent = await request.body()
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {_BODY_S:g} s") from None
    if sum(map(_TEXT.sub(b"", sent).count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise HTTPException(413, f"the body has more than {MOST_VALUES:,} values")


async def _held(call: Call, response: Response) -> Response:
    """Count the response against its visitor until it is sent. Raises BusyError beyond the visitor's limit.

    Its background task, which removes a file, is run however the response ends.
    """
    count = _size(response)
    if count < _SMALL_BYTES and response.background is None:
        return response
    try:
        call.gate.account.hold(call.actor.name, count)
    except BusyError:
        if response.background is not None:
            await response.background()
        raise
    return _Held(response, call.gate.account, call.actor.name, count)


def _size(response: Response) -> int:
    """Bytes in memory, or in a temporary file; 0 for a stream."""
    if isinstance(response, FileResponse):
        return response.stat_result.st_size if response.stat_result is not None else 0
    return 0 if isinstance(response, StreamingResponse) else len(response.body)


class _Held(Response):
    def __init__(self, response: Response, account: HeldBytes, visitor: str, count: int) -> None:
        super().__init__(background=response.background)
        response.background = None  # Starlette's own skips it after a range that is not valid
        self._response, self._account = response, account
        self._visitor, self._count = visitor, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._account.let_go(self._visitor, self._count)
            if self.background is not None:
                await self.background()


class Turns:
    """Limit operations at once, of each visitor and of all, on one event loop. Waiting takes no thread."""

    def __init__(self, most: int = _TURNS, most_each: int = _TURNS_EACH) -> None:
        self._all, self._most_each = asyncio.Semaphore(most), most_each
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # of visitors with an operation

    @asynccontextmanager
    async def one(self, visitor: str) -> AsyncIterator[None]:
        own = self._own.setdefault(visitor, asyncio.Semaphore(self._most_each))
        async with own, self._all:
            yield
