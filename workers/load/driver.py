"""The measured window: sends every prompt when the load says so and watches the client meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import aiohttp

from lab.errors import CancelledError
from lab.records import ClientHealth, RequestRecord, TelemetrySample
from lab.study import Load
from workers.load.arrivals import intended_send_s
from workers.load.client import Ask, Endpoint, send, unsent
from workers.load.window import LoadProgress, Window
from workers.workloads import Prompt

OnProgress = Callable[[LoadProgress], None]
_EVERY_S = 1.0


@dataclass(frozen=True)
class LoadResult:
    """All requests in the order of sending, failed ones too, and one telemetry sample a second."""

    requests: tuple[RequestRecord, ...]
    telemetry: tuple[TelemetrySample, ...]
    client: ClientHealth
    duration_s: float  # from the start of the window to the end of its last request


@dataclass(frozen=True)
class WarmUp:
    """What the warm-up did; its answers are thrown away, its errors are not."""

    requests: int
    duration_s: float
    errors: tuple[str, ...]


async def drive(
    session: aiohttp.ClientSession,
    target: Endpoint,
    prompts: Sequence[Prompt],
    *,
    load: Load,
    ask: Ask,
    seed: int,
    on_progress: OnProgress | None = None,
    cancel: asyncio.Event | None = None,
    end: asyncio.Event | None = None,
) -> LoadResult:
    """Send `prompts` (as many as `load.num_prompts`) and return when the last one has ended.

    `on_progress` is called each second and once at the end, in a thread of its own; what it raises ends the window and
    is raised here. Raises CancelledError as soon as `cancel` is set. Once `end` is set (the server is gone, say)
    nothing more is sent: what still waits for its moment is in the result as a failed request that never left.
    """
    if len(prompts) != load.num_prompts:
        raise ValueError(f"{len(prompts)} prompts for a load of {load.num_prompts}")
    window = Window(len(prompts))
    cpu_before_s = time.thread_time()
    plan = zip(prompts, intended_send_s(load, seed).tolist(), strict=True)
    sending = _send_all(session, target, plan, load=load, ask=ask, window=window, end=end or asyncio.Event())
    tell = _one_at_a_time(on_progress)
    await _until_done(sending, window.lag.watch(), _sample(window), _report(window, tell), _cancelled(cancel))
    cpu_s = time.thread_time() - cpu_before_s
    await asyncio.to_thread(tell, window.progress())
    requests = tuple(sorted(window.records, key=lambda record: record.index))
    return LoadResult(requests, window.telemetry(), window.health(cpu_s), max(r.end_s or 0.0 for r in requests))


async def warm_up(
    session: aiohttp.ClientSession,
    target: Endpoint,
    prompts: Sequence[Prompt],
    *,
    load: Load,
    ask: Ask,
    cancel: asyncio.Event | None = None,
) -> WarmUp:
    """Send `prompts` (see `warm_up_prompts`) at the concurrency of `load` as a closed loop; nothing is recorded."""
    streams = min(load.max_concurrency, len(prompts))
    closed = Load(max_concurrency=streams, num_prompts=len(prompts))
    result = await drive(session, target, prompts, load=closed, ask=ask, seed=0, cancel=cancel)
    errors = tuple(record.error for record in result.requests if record.error)
    return WarmUp(len(result.requests), result.duration_s, errors)


async def _send_all(
    session: aiohttp.ClientSession,
    target: Endpoint,
    plan: Iterable[tuple[Prompt, float]],
    *,
    load: Load,
    ask: Ask,
    window: Window,
    end: asyncio.Event,
) -> None:
    """One task a stream; each takes the next request, waits for its moment, sends it and reads the answer."""
    waiting = enumerate(plan)
    closed_loop = load.request_rate_rps is None

    async def stream() -> None:
        for index, (prompt, offset_s) in waiting:
            free_s = window.clock()
            intended_s = free_s if closed_loop else offset_s
            if not await _reached(intended_s - free_s, end):
                window.add(unsent(prompt, ask, index=index, intended_send_s=intended_s), due_s=intended_s)
                continue
            window.in_flight += 1
            record = await send(session, target, prompt, ask, window.clock, index=index, intended_send_s=intended_s)
            window.in_flight -= 1
            window.add(record, due_s=max(intended_s, free_s))

    async with asyncio.TaskGroup() as streams:
        for _ in range(load.max_concurrency):
            streams.create_task(stream())


async def _reached(delay_s: float, end: asyncio.Event) -> bool:
    """Wait so long; False when the end came first, or was there already."""
    if delay_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await end.wait()
    return not end.is_set()


async def _until_done(work: Awaitable[None], *watchers: Awaitable[None]) -> None:
    """Wait for the work, or for the first watcher that raises; then stop whatever still runs."""
    tasks = [asyncio.ensure_future(task) for task in (work, *watchers)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _sample(window: Window) -> None:
    while True:
        await asyncio.sleep(_EVERY_S - window.clock() % _EVERY_S)
        window.sample()


async def _report(window: Window, tell: OnProgress) -> None:
    """In a thread, because what is told may end up in a database that is busy."""
    while True:
        await asyncio.sleep(_EVERY_S)
        await asyncio.to_thread(tell, window.progress())


def _one_at_a_time(on_progress: OnProgress | None) -> OnProgress:
    """The last call must not overtake one whose thread is still busy when the window ends."""
    lock = threading.Lock()

    def tell(progress: LoadProgress) -> None:
        with lock:
            if on_progress:
                on_progress(progress)

    return tell


async def _cancelled(cancel: asyncio.Event | None) -> None:
    await (cancel or asyncio.Event()).wait()
    raise CancelledError("the run was cancelled")
