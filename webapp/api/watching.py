"""Streams of a job's changes: one poll for all who watch a job, and a few open streams for each visitor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import sqlalchemy as sa
from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from access.web.limits import AtOnce
from lab.errors import BusyError
from webapp.api.calls import Call

#: Streams that one visitor has open at once.
MOST_STREAMS = 10
#: Polls have threads of their own.
POLLING = CapacityLimiter(4)
_POLL_EVERY_S = 0.5
#: A job's document, and whether it has ended.
Poll = Callable[[sa.Engine, str], tuple[str, bool]]


@dataclass
class _Watched:
    """A job that somebody watches, as of the last poll."""

    streams: int = 0
    polled_s: float = float("-inf")
    document: str = ""
    has_ended: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Watching:
    """The open streams and the polls behind them, on one event loop."""

    def __init__(self, poll: Poll) -> None:
        self._poll_job = poll
        self._jobs: dict[str, _Watched] = {}
        self._streams = AtOnce()

    def stream(self, call: Call, job_id: str) -> StreamingResponse:
        """Stream the job at each change until it ends or the visitor loses access. Raises BusyError."""
        if self._streams.count(call.actor.name) >= MOST_STREAMS:
            raise BusyError(f"you already watch jobs in {MOST_STREAMS} streams: end one of them first")
        return _Stream(self, call, job_id)

    async def send(self, stream: _Stream, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and count it against its visitor until it ends."""
        watched = self._jobs.setdefault(stream.job_id, _Watched())
        watched.streams += 1
        try:
            with self._streams.one_more(stream.call.actor.name):
                await StreamingResponse.__call__(stream, scope, receive, send)
        finally:
            watched.streams -= 1
            if not watched.streams:
                del self._jobs[stream.job_id]

    async def changes(self, call: Call, job_id: str) -> AsyncIterator[str]:
        watched, shown = self._jobs[job_id], ""
        while True:
            await self._poll(call, job_id, watched)
            if watched.document != shown:
                shown = watched.document
                yield f"event: job\ndata: {shown}\n\n"
            if watched.has_ended:
                return
            await asyncio.sleep(_POLL_EVERY_S)
            if await to_thread.run_sync(call.again, limiter=POLLING) is None:
                return

    async def _poll(self, call: Call, job_id: str, watched: _Watched) -> None:
        async with watched.turn:
            if time.monotonic() - watched.polled_s < _POLL_EVERY_S:
                return
            found = await to_thread.run_sync(self._poll_job, call.database, job_id, limiter=POLLING)
            (watched.document, watched.has_ended), watched.polled_s = found, time.monotonic()


class _Stream(StreamingResponse):
    def __init__(self, watching: Watching, call: Call, job_id: str) -> None:
        super().__init__(watching.changes(call, job_id), media_type="text/event-stream")
        self.watching, self.call, self.job_id = watching, call, job_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.watching.send(self, scope, receive, send)
