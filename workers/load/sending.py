"""The requests of a window on their way: as many streams as the load has, each with one request at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import aiohttp

from jobs.datasets.prompt import Prompt
from lab.study import Load
from workers.load.client import Ask, Endpoint, send, unsent
from workers.load.window import Window

_NO_SERVER = "not sent: the server had ended before its turn came"
_NO_STREAM = "not sent: no stream was free before the {:g} s of the load were over"


@dataclass(frozen=True)
class Sending:
    """Takes the `waiting` requests (index, prompt, offset in s) one after the other, on `max_concurrency` streams.

    Once `over` is set nothing more leaves.
    """

    session: aiohttp.ClientSession
    target: Endpoint
    ask: Ask
    load: Load
    waiting: Iterator[tuple[int, tuple[Prompt, float]]]
    window: Window
    over: asyncio.Event

    async def run(self) -> None:
        """Until every stream has read its last answer."""
        async with asyncio.TaskGroup() as streams:
            for _ in range(self.load.max_concurrency):
                streams.create_task(self._stream())

    async def _stream(self) -> None:
        """Take the next request, wait for its moment, send it and read the answer."""
        window, until_s = self.window, self.load.duration_s
        for index, (prompt, offset_s) in self.waiting:
            free_s = window.clock()
            late = until_s is not None and free_s > until_s
            if window.problem or (late and self.load.closed_loop):
                return
            due_s = free_s if self.load.closed_loop else offset_s
            if late or not await _reached(due_s - free_s, self.over):
                if not window.problem:
                    why = _NO_STREAM.format(until_s) if late else _NO_SERVER
                    window.add(replace(unsent(prompt, self.ask, index=index, intended_send_s=due_s), error=why), due_s)
                continue
            await self._send(index, prompt, due_s, free_s)

    async def _send(self, index: int, prompt: Prompt, due_s: float, free_s: float) -> None:
        window = self.window
        window.in_flight += 1
        record = await send(
            self.session, self.target, prompt, self.ask, window.clock, index=index, intended_send_s=due_s
        )
        window.in_flight -= 1
        window.add(record, due_s=max(due_s, free_s))
        if window.problem:
            self.over.set()


async def _reached(delay_s: float, end: asyncio.Event) -> bool:
    """Wait so long; False when the end came first, or was there already."""
    if delay_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await end.wait()
    return not end.is_set()
