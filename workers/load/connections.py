"""Streaming answers over HTTP/1.1 at 3 µs a chunk before parsing, where asyncio and aiohttp spend 20 µs.

One selector watches the connections of all streams, and wakes the event loop once for all that have something to read.
Their data is timestamped and queued; it is parsed in short slices once all of it has been read, so that no chunk waits
for the parsing of another. docs/decisions/0001-own-measuring-client.md has the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import selectors
import socket
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import httptools
from aiohttp.abc import AbstractResolver, ResolveResult

from jobs.engines.addresses import check_address, check_name

logger = logging.getLogger(__name__)
T = TypeVar("T")
#: Shorter than the 5 s after which uvicorn closes an idle connection, so that no request uses a closing one.
KEEPALIVE_S = 2.0
_READ_BYTES = 1 << 16
#: Bytes stored of an answer whose status is not 200.
_REFUSAL_BYTES = 1 << 16
#: Bytes allowed before a body: a foreign server must not fill this process's memory.
_MOST_HEAD_BYTES = 1 << 20
#: Bytes of a header shown in an error.
_SHOWN_BYTES = 100
_SLICE_S = 0.0002
#: A server that closed a used connection while a request was in flight shows that at once. One that takes longer has
#: accepted the request.
_STALE_WITHIN_S = 1.0
#: Pieces that one connection may have queued: a server that sends faster than its answer is parsed must not fill
#: this process's memory.
_MOST_ASIDE = 64
#: What servers call a body that is as it was written; `none` keeps proxies from compressing a stream.
_UNCOMPRESSED = (b"identity", b"none", b"")
_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_PORTS = {"http": 80, "https": 443}


class Receiver(Protocol):
    """Receives the body of one answer, piece by piece, each with its time of arrival."""

    def receive(self, t_s: float, received: bytes) -> None: ...


@dataclass(frozen=True)
class Response:
    """The end of an exchange; `refusal` is the body of an answer whose status is not 200, `content_type` the beginning
    of that header, or empty. `is_whole`: the body ended where its length or its last chunk says, not just with the
    connection.
    """

    status: int
    refusal: bytes
    content_type: str = ""
    is_whole: bool = True


class CannotConnectError(OSError):
    """No connection to the server could be made."""


class StaleConnectionError(OSError):
    """The server had closed a used connection before a byte of the answer came: the request may be sent again."""


class CheckedResolver(AbstractResolver):
    """Resolves a name once and returns only checked addresses, so that no unchecked address is connected to."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        check_name(host)
        loop = asyncio.get_running_loop()
        resolved = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        for *_, address in resolved:
            check_address(host, str(address[0]))
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in resolved
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


def _origin_of(url: str) -> _Origin:
    parts = urlsplit(url)
    return _Origin(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])


class Connections:
    """Connections for all streams of a load. Use it as `async with`, within one event loop."""

    def __init__(self, *, checked: bool = False, ca_file: Path | None = None, proxy: str | None = None) -> None:
        """With `checked`, the addresses that names resolve to are checked (`jobs.engines.addresses`). With `ca_file`
        only certificates of its authorities are trusted. With `proxy`, its address, connections go through it.
        """
        self._checked, self._ca_file = checked, ca_file
        self._proxy = None if proxy is None else _origin_of(proxy)
        self._idle: dict[_Origin, list[_Connection]] = defaultdict(list)
        self._addresses: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self._tls: ssl.SSLContext | None = None
        self._backlog: deque[_Connection] = deque()
        self._over: deque[_Outcome] = deque()
        self._goes_on = False

    async def __aenter__(self) -> Self:
        self._loop, self._selector = asyncio.get_running_loop(), selectors.DefaultSelector()
        self._loop.add_reader(self._selector, self._read_all)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.remove_reader(self._selector)
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._backlog.clear()
        self._selector.close()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        receiver: Receiver,
        clock: Callable[[], float],
        *,
        most_bytes: int,
        fresh: bool = False,
    ) -> Response:
        """Send a request (on a new connection if `fresh`) and read its answer to the end.

        Raises OSError: CannotConnectError, StaleConnectionError, or any broken connection. An answer of more than
        `most_bytes` is an error, too: a foreign server must not fill this process's memory.
        """
        parts, origin = urlsplit(url), _origin_of(url)
        lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()
        used = None if fresh else self._idle_connection(origin)
        connection, sent_s = used or await self._connect(origin), time.monotonic()
        try:
            return await connection.exchange(head + body, receiver, clock, most_bytes)
        except OSError as error:
            if used is None or used.has_answered or time.monotonic() - sent_s > _STALE_WITHIN_S:
                raise
            raise StaleConnectionError(str(error)) from error
        finally:
            if connection.is_reusable:
                connection.idle_since_s = time.monotonic()
                self._idle[origin].append(connection)
            else:
                connection.close()

    async def open(self, url: str, count: int) -> None:
        """Open this many connections, so that no request of a window waits for its own. Failures are left to those."""
        origin = _origin_of(url)
        opening = [self._connect(origin) for _ in range(count)]
        for opened in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(opened, _Connection):
                opened.idle_since_s = time.monotonic()
                self._idle[origin].append(opened)
            elif not isinstance(opened, CannotConnectError):
                raise opened

    def _idle_connection(self, origin: _Origin) -> _Connection | None:
        """Return the most recently used connection: the server closes idle ones."""
        idle = self._idle[origin]
        while idle:
            connection = idle.pop()
            if connection.is_reusable and time.monotonic() - connection.idle_since_s < KEEPALIVE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, origin: _Origin) -> _Connection:
        problem: OSError = OSError("the host has no address")
        try:
            behind = None if self._proxy is None else await self._address_behind(origin)
            first = self._proxy or origin
            for family, address in await self._resolved(first.host, first.port):
                try:
                    return await self._connect_to(origin, family, (address, first.port), behind)
                except OSError as error:
                    problem = error
        except (OSError, UnicodeError) as error:
            raise CannotConnectError(f"{origin.host}:{origin.port}: {error}") from error
        raise CannotConnectError(f"{origin.host}:{origin.port}: {problem}") from problem

    async def _address_behind(self, origin: _Origin) -> str:
        """Return the address to ask a proxy for: where addresses are checked a checked one, not a name that the proxy
        would resolve anew.
        """
        host = origin.host
        if self._checked:
            resolved = await self._resolved(host, origin.port)
            host = resolved[0][1] if resolved else host
        return f"[{host}]:{origin.port}" if ":" in host else f"{host}:{origin.port}"

    async def _connect_to(
        self, origin: _Origin, family: int, address: tuple[str, int], behind: str | None
    ) -> _Connection:
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.sock_connect(opened, address)
            if behind is not None:
                await self._tunnel(opened, behind)
            if origin.scheme == "https":
                self._tls = self._tls or ssl.create_default_context(cafile=self._ca_file)
                opened = self._tls.wrap_socket(opened, server_hostname=origin.host, do_handshake_on_connect=False)
                await _retried(opened.do_handshake, opened)
            return _Connection(opened, self._selector, self._backlog.append, self._over.append)
        except BaseException:
            opened.close()
            raise

    async def _tunnel(self, opened: socket.socket, behind: str) -> None:
        """Have the proxy connect this socket to the server behind it."""
        await self._loop.sock_sendall(opened, f"CONNECT {behind} HTTP/1.1\r\nHost: {behind}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            received = await self._loop.sock_recv(opened, _READ_BYTES)
            if not received or len(head) > _MOST_HEAD_BYTES:
                raise ConnectionResetError("the proxy hung up")
            head += received
        line = head.partition(b"\r\n")[0]
        if line.split(b" ")[1:2] != [b"200"]:
            raise ConnectionRefusedError(f"the proxy answered {line[:_SHOWN_BYTES].decode('utf-8', 'replace')}")

    async def _resolved(self, host: str, port: int) -> list[tuple[int, str]]:
        """Return families and addresses. A name is resolved once."""
        with contextlib.suppress(ValueError):
            version = ipaddress.ip_address(host).version
            return [(socket.AF_INET if version == 4 else socket.AF_INET6, host)]
        if (host, port) not in self._addresses:
            if self._checked:
                checked = await CheckedResolver().resolve(host, port)
                self._addresses[host, port] = [(record["family"], record["host"]) for record in checked]
            else:
                resolved = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                self._addresses[host, port] = [(family, str(address[0])) for family, *_, address in resolved]
        return self._addresses[host, port]

    def _read_all(self) -> None:
        """Read all received data, then parse for a moment; data that arrives meanwhile is read before the next moment.
        At most one caller with a finished exchange resumes at a time: it makes a record and sends the next request, and
        the chunks of other streams would wait for several.
        """
        for key, _ in self._selector.select(0):
            key.data.read()
        until_s = time.perf_counter() + _SLICE_S
        while self._backlog and time.perf_counter() < until_s:
            self._backlog.popleft().parse()
        if self._over:
            self._over.popleft().deliver()
        if (self._backlog or self._over) and not self._goes_on:
            self._goes_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        if self._backlog or self._over:  # everything is closed otherwise
            self._read_all()


class _Outcome(NamedTuple):
    """A future for the end of an exchange."""

    awaited: asyncio.Future[None]
    problem: OSError | None

    def deliver(self) -> None:
        if self.awaited.done():  # abandoned meanwhile
            return
        if self.problem is None:
            self.awaited.set_result(None)
        else:
            self.awaited.set_exception(self.problem)


class _Connection:
    """One connection and its current exchange."""

    def __init__(
        self,
        opened: socket.socket,
        selector: selectors.BaseSelector,
        put_aside: Callable[[_Connection], None],
        put_outcome: Callable[[_Outcome], None],
    ) -> None:
        self.idle_since_s = 0.0
        self._socket, self._selector = opened, selector
        self._put_aside, self._put_outcome = put_aside, put_outcome
        self._aside: list[tuple[float, bytes | OSError]] = []  # read but not yet parsed
        self._parser = httptools.HttpResponseParser(self)
        self._is_open, self._is_watched, self._keeps_alive = True, True, False
        self.has_answered = False  # a byte of the current answer came
        self._now_s = 0.0  # when the data that is being parsed came
        self._awaited: asyncio.Future[None] | None = None  # of the current exchange
        self._receiver: Receiver
        self._clock: Callable[[], float]
        self._most_bytes = self._room_bytes = 0  # of the answer, and its remaining length
        self._begin_answer()
        selector.register(opened, selectors.EVENT_READ, self)

    @property
    def is_reusable(self) -> bool:
        return self._is_open and self._keeps_alive

    async def exchange(
        self, request: bytes, receiver: Receiver, clock: Callable[[], float], most_bytes: int
    ) -> Response:
        """Run one exchange. Raises OSError. The connection is reusable only after a complete answer."""
        self._begin_answer()
        self._receiver, self._clock, self._keeps_alive, self.has_answered = receiver, clock, False, False
        self._most_bytes = self._room_bytes = most_bytes
        self._awaited = awaited = asyncio.get_running_loop().create_future()
        try:
            rest = memoryview(request)
            while rest and self._awaited is not None:
                rest = rest[await _retried(partial(self._socket.send, rest), self._socket) :]
            await awaited
            self._keeps_alive = self._keeps_alive and not rest  # else the next request would be read as its rest
        finally:
            self.parse()  # the rest of an abandoned answer
            self._awaited = None
            if not awaited.cancel() and not awaited.cancelled():
                awaited.exception()  # retrieved, even if sending failed first
        return Response(self._status, bytes(self._refusal), self._content_type, not self._ends_with_connection)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._unwatch()
            self._socket.close()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._selector.unregister(self._socket)

    def read(self) -> None:
        """Read the received data and queue it; call this when the socket is readable."""
        came: bytes | OSError
        try:
            came = self._socket.recv(_READ_BYTES)
        except _WOULD_BLOCK:
            return
        except OSError as error:
            came = ConnectionAbortedError(str(error))
        if self._awaited is None:  # the server closes the connection, or sends unrequested data
            self.close()
            return
        self._aside.append((self._clock(), came))
        if len(self._aside) == 1:
            self._put_aside(self)
        elif len(self._aside) > _MOST_ASIDE:
            self.parse()
        if not isinstance(came, bytes) or not came:
            self._unwatch()  # otherwise it would read for ever
        elif isinstance(self._socket, ssl.SSLSocket) and self._is_open and self._socket.pending():
            self.read()

    def parse(self) -> None:
        """Parse the queued data."""
        aside, self._aside = self._aside, []
        for self._now_s, came in aside:
            if self._awaited is None:  # as in `read`
                self.close()
            elif isinstance(came, OSError):
                self._end(came)
            elif came:
                self._feed(came)
            elif self._ends_with_connection:
                self._end(None)
            else:
                self._end(ConnectionResetError("the server hung up before the end of its answer"))

    def _feed(self, received: bytes) -> None:
        self.has_answered = True
        if not self._status:
            self._head_bytes += len(received)
        try:
            self._parser.feed_data(received)
        except httptools.HttpParserCallbackError as bug:
            logger.exception("the received data could not be read")
            self._end(ConnectionError(f"an error inside Drafthouse ({bug.__context__!r}): see the worker's log"))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(ConnectionError(f"the answer is not HTTP ({error})"))
        if not self._status and self._head_bytes > _MOST_HEAD_BYTES:
            self._end(ConnectionError(f"the server sent more than {_MOST_HEAD_BYTES:,} bytes of headers"))

    def _begin_answer(self) -> None:
        self._status, self._refusal = 0, bytearray()
        self._has_length = self._ends_with_connection = False
        self._coding, self._content_type, self._head_bytes = b"identity", "", 0

    def _end(self, problem: OSError | None) -> None:
        """End the exchange, and the connection with it."""
        self.close()
        self._conclude(problem)

    def _conclude(self, problem: OSError | None) -> None:
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            self._put_outcome(_Outcome(awaited, problem))

    # Callbacks of httptools:

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        self._has_length = self._has_length or lower in {b"content-length", b"transfer-encoding"}
        if lower == b"content-encoding":
            self._coding = value.strip().lower()
        elif lower == b"content-type":
            self._content_type = value[:_SHOWN_BYTES].decode("utf-8", "replace").strip()

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._ends_with_connection = not self._has_length
        if self._coding not in _UNCOMPRESSED:
            self._end(
                ConnectionError(
                    f"the server compressed its answer, which nobody asked for ({self._coding[:_SHOWN_BYTES]!r})"
                )
            )

    def on_body(self, body: bytes) -> None:
        self._room_bytes -= len(body)
        if self._room_bytes < 0:
            self._end(
                ConnectionError(f"the server sent more than {self._most_bytes:,} bytes, the limit of this answer")
            )
        elif self._status != 200:
            self._refusal += body[: _REFUSAL_BYTES - len(self._refusal)]
        else:
            self._receiver.receive(self._now_s, body)

    def on_message_complete(self) -> None:
        if self._status < 200:  # an interim answer: the real one follows
            self._begin_answer()
        elif self._awaited is not None:
            self._keeps_alive = self._parser.should_keep_alive()
            self._conclude(None)


async def _retried(attempt: Callable[[], T], opened: socket.socket) -> T:
    """Retry an operation that would block, waiting for the socket between attempts."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return attempt()
        except (BlockingIOError, ssl.SSLWantWriteError):
            await _permitted(opened, loop.add_writer, loop.remove_writer)
        except ssl.SSLWantReadError:
            await _permitted(opened, loop.add_reader, loop.remove_reader)


async def _permitted(
    opened: socket.socket, add: Callable[..., object], remove: Callable[[socket.socket], object]
) -> None:
    permitted = asyncio.Event()
    add(opened, permitted.set)
    try:
        await permitted.wait()
    finally:
        remove(opened)
