"""Runs one generation at a time, in the order of arrival, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor

from decoding import Rounds
from request_parsing import GenerationParams

Decode = Callable[[GenerationParams, Rounds, Callable[[list[int]], None], threading.Event], None]


class GenerationQueue:
    """`running` and `waiting` count requests. Belongs to one event loop."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._lock = asyncio.Lock()  # first come, first served; a cancelled request leaves the queue
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="generate")
        self.running = 0
        self.waiting = 0

    async def tokens(self, params: GenerationParams, rounds: Rounds) -> AsyncGenerator[list[int]]:
        """Yield the tokens of each round as they come. Raises what generation raised. Closing it stops the
        generation.
        """
        self.waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            async for tokens in self._generated(params, rounds):
                yield tokens
        finally:
            self.running -= 1
            self._lock.release()

    async def _generated(self, params: GenerationParams, rounds: Rounds) -> AsyncGenerator[list[int]]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[int] | None] = asyncio.Queue()
        stop = threading.Event()

        def emit(tokens: list[int]) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, tokens)

        generation = loop.run_in_executor(self._thread, self._decode, params, rounds, emit, stop)
        generation.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (tokens := await arrived.get()) is not None:
                yield tokens
            await generation
        finally:
            stop.set()
            await asyncio.wait([generation])  # so that the next generation starts on an idle machine
