"""Limits on connections to the page's server: idle time, length of headers, and number.

Uvicorn only times out a connection that waits for its next request. A silent one, or half a header, would stay
forever, and some hundred of them would use up the files that a process may have open.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from typing import ClassVar

from uvicorn import config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: How long a connection may go without a request that is being answered.
SILENT_S = 20.0
#: Headers of one request; the guard refuses longer ones, too.
MOST_HEADER_BYTES = 64 * 1024
#: Bytes of one message of a browser: all fields of a page with texts of the greatest size.
MOST_MESSAGE_BYTES = 2 * 2**20
#: Open files of the process, as far as the system allows.
_MOST_OPEN = 65_536
#: Open files that are not for connections: asyncio accepts up to 2,048 before the first is handled.
_OTHERS = 4_096
#: What uvicorn logs as an error of ours for each websocket that the guard refuses with a status.
_REFUSED = "ASGI callable returned without completing handshake."
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def guard_connections() -> None:
    """Raise the limit of open files, and let the server that this process starts use `Connection`.

    A refused websocket is no error in its log.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_OPEN if hard == resource.RLIM_INFINITY else min(_MOST_OPEN, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    Connection.most = most - min(_OTHERS, most // 2)
    config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{Connection.__name__}"
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.msg != _REFUSED)


class Connection(HttpToolsProtocol):
    """Ends if it is silent for too long, and earlier where there are too many connections."""

    most = 512
    #: The silent connections, longest silent first, with their addresses.
    _silent: ClassVar[dict[Connection, str]] = {}

    _timer: asyncio.TimerHandle | None = None
    _is_in_headers = True
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.config.ws_max_size = min(self.config.ws_max_size, MOST_MESSAGE_BYTES)
        self._be_silent()
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._speak()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_headers:
            if self._header_bytes > MOST_HEADER_BYTES:
                self.transport.write(_TOO_LONG)
                self.transport.close()
                return
            self._header_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers, self._header_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        super().on_headers_complete()
        self._speak()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._be_silent()

    def _be_silent(self) -> None:
        if self._timer is None:
            self._silent[self] = self.client[0] if self.client else ""
            self._timer = self.loop.call_later(SILENT_S, self.end)

    def _speak(self) -> None:
        self._silent.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        self._speak()
        self.transport.abort()

    def _make_room(self) -> None:
        """Close the longest silent connection of the address that has most of them."""
        ((address, _),) = Counter(self._silent.values()).most_common(1)
        next(one for one, other in self._silent.items() if other == address).end()
