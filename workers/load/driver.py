"""The load of a run: sends every prompt at its time, in one window or several, and watches how the client keeps up.

The intended send times are a pure, seeded function, so that every arm gets the same arrivals.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.datasets.prompt import Prompt, next_turn
from lab.capacity.early_end import MissCount
from lab.errors import UserError
from lab.metrics.records import NOT_SENT, ClientHealth, RequestRecord, TelemetrySample
from lab.study import Load, Slo
from workers.load.answer import Answer
from workers.load.client import Endpoint, RequestParams, send, unsent
from workers.load.connections import Connections
from workers.load.window import LoadProgress, Window

Offsets = NDArray[np.float64]
OnProgress = Callable[[LoadProgress], None]
#: Interval of telemetry samples, and of progress reports, which a page shows a second later.
_EVERY_S, _REPORT_EVERY_S = 1.0, 0.5
#: A tenth of Python's switch interval: the heartbeat and the probes run in threads beside the event loop.
_SWITCH_INTERVAL_S = 0.0005
#: Why a trace load cannot replay a dataset.
NO_TRACE = "its dataset records no arrival times: use burstgpt, or other arrivals"
_NO_SERVER = f"{NOT_SENT}the server had ended before its turn came"
_ENOUGH = f"{NOT_SENT}the trial had ended early"
_NO_ANSWER = f"{NOT_SENT}an earlier turn of its session failed"
_NO_STREAM = f"{NOT_SENT}no stream was free before the {{:g}} s of the load were over"


def intended_send_s(load: Load, seed: int, trace_s: Sequence[float] | None = None) -> Offsets:
    """Return each prompt's offset in seconds from the start of the window, never decreasing.

    There are `num_prompts` of them, or fewer if the load's duration ends before: a request that is not due by then is
    not part of the run. Without a rate (closed loop) every offset is 0: a request leaves as soon as a stream is free.
    `trace_s`: the arrival times of the prompts, in their order; raises ValueError if a trace load has none.
    """
    offsets = _arrivals(load, seed, trace_s)
    return offsets if load.duration_s is None or load.closed_loop else offsets[offsets <= load.duration_s]


def _arrivals(load: Load, seed: int, trace_s: Sequence[float] | None) -> Offsets:
    if load.arrivals == "trace":
        if trace_s is None or len(trace_s) != load.num_prompts:
            raise ValueError("a trace load needs one arrival time per prompt")
        return _trace(load, np.asarray(trace_s, dtype=np.float64))
    if load.request_rate_rps is None:
        return np.zeros(load.num_prompts)
    if load.arrivals == "constant":
        return np.arange(1, load.num_prompts + 1) / load.request_rate_rps
    if load.ramp_s is not None and load.ramp_to_rps is not None:
        return _ramp(load.num_prompts, load.request_rate_rps, load.ramp_to_rps, load.ramp_s)
    return _gamma(load, load.request_rate_rps, seed)


def _gamma(load: Load, rate_rps: float, seed: int) -> Offsets:
    """Return gamma gaps of shape `burstiness` (1 is Poisson; their coefficient of variation is 1/sqrt(burstiness)),
    scaled so that the last request leaves at exactly num_prompts / rate, as in `vllm bench serve`: so the offered load
    is the same for every seed.
    """
    gaps = np.random.default_rng(seed).gamma(load.burstiness, size=load.num_prompts)
    if gaps.max() == 0.0:  # an extreme burstiness underflows: its limit is one long gap, then everything at once
        gaps[0] = 1.0
    offsets: Offsets = np.cumsum(gaps / gaps.max())
    offsets *= load.num_prompts / rate_rps / offsets[-1]
    return offsets


def _ramp(count: int, from_rps: float, to_rps: float, ramp_s: float) -> Offsets:
    """Return times at a linearly changing rate. The n-th request leaves when n requests are due: n = from t + slope t^2
    / 2.

    Solved in a form without cancellation, so that a ramp from a rate to itself is constant.
    """
    due = np.arange(1, count + 1, dtype=np.float64)
    slope = (to_rps - from_rps) / ramp_s
    root = np.sqrt(np.maximum(from_rps**2 + 2 * slope * due, 0.0))
    offsets: Offsets = 2 * due / (from_rps + root)
    return offsets


def _trace(load: Load, times_s: Offsets) -> Offsets:
    """Return the recorded times from the first arrival on; with a rate, scaled to end at num_prompts / rate."""
    if not np.isfinite(times_s).all() or (np.diff(times_s) < 0).any():
        raise ValueError("the arrival times of a trace must be finite and in order")
    offsets: Offsets = times_s - times_s[0]
    if load.request_rate_rps is not None and offsets[-1] > 0:
        offsets *= load.num_prompts / load.request_rate_rps / offsets[-1]
    return offsets


@dataclass(frozen=True)
class LoadResult:
    """All requests that became due, in the order of sending and including failed ones, and one telemetry sample a
    second.

    `problem` is the reason why the load failed and ended early, `ended_early` why a trial did; or None.
    """

    requests: tuple[RequestRecord, ...]
    telemetry: tuple[TelemetrySample, ...]
    client: ClientHealth
    duration_s: float  # from the start of the window to the end of its last request, or the sum over several windows
    problem: str | None = None
    ended_early: str | None = None


@dataclass(frozen=True)
class WarmUp:
    """The result of the warm-up; its answers are discarded, its errors are not."""

    requests: int
    duration_s: float
    errors: tuple[str, ...]
    counts_chunks: bool = True  # whether each answer came with the number of tokens in each of its chunks

    @property
    def answered(self) -> int:
        return self.requests - len(self.errors)


async def drive(
    connections: Connections,
    target: Endpoint,
    prompts: Sequence[Prompt],
    *,
    load: Load,
    params: RequestParams,
    seed: int,
    on_progress: OnProgress | None = None,
    end: asyncio.Event | None = None,
    trial: tuple[Slo, float] | None = None,
) -> LoadResult:
    """Send `prompts` (as many as `load.num_prompts`) and return when the last answer has ended.

    A session occupies its stream until its last turn is answered. Sessions arrive at the rate; later turns are due
    after the previous answer and their think time. After a failed turn the rest of the session is recorded as failed,
    and never sent.

    A duration ends the sending, not the reading: requests in flight are read to their end, and those that were due but
    found no free stream are recorded as failed. Too many failed requests end the window too, with a problem in the
    result. Raises UserError for a trace load whose prompts have no arrival times.

    `on_progress` is called twice a second and once at the end, in a thread; an exception in it ends the window and is
    raised here. Once `end` is set (by the caller if the server is gone, or here) nothing more is sent: waiting requests
    are recorded as failed and never sent. `trial`, the SLO and the share of requests that must meet it, is for a search
    for a capacity: once far more have missed it, nothing more is sent. Requests in flight are read to their end, so
    that they do not burden the next trial.
    """
    if len(prompts) != load.num_prompts:
        raise ValueError(f"{len(prompts)} prompts for a load of {load.num_prompts}")
    plan = _planned(prompts, load, seed)
    requests = sum(prompt.requests for prompt, _ in plan)
    window = Window(load, requests, None if trial is None else MissCount(*trial, requests))
    await _send_all(Sending(connections, target, params, _numbered(plan), window, end or asyncio.Event()), on_progress)
    if not requests:
        window.problem = (
            f"no request was due within duration_s {load.duration_s:g}: let it last longer, or raise the rate"
        )
    return result_of(window)


async def drive_on(
    window: Window,
    connections: Connections,
    target: Endpoint,
    prompts: Sequence[Prompt],
    *,
    params: RequestParams,
    on_progress: OnProgress | None = None,
    end: asyncio.Event | None = None,
) -> None:
    """Send some more prompts of a closed loop of single requests, in one more window of the run; see `drive`."""
    waiting = _numbered([(prompt, 0.0) for prompt in prompts], len(window.records))
    await _send_all(Sending(connections, target, params, waiting, window, end or asyncio.Event()), on_progress)


def result_of(window: Window) -> LoadResult:
    """Return the result of a run whose last window has ended."""
    records = window.requests()
    last_end_s = max((record.end_s or 0.0 for record in records), default=0.0)
    return LoadResult(records, window.telemetry(), window.health(), last_end_s, window.problem, window.ended_early)


async def _send_all(sending: Sending, on_progress: OnProgress | None) -> None:
    """Send what is waiting, in a window of its own."""
    window, report = sending.window, _one_at_a_time(on_progress)
    cpu_before_s = time.thread_time()
    window.begin()
    with _undisturbed():
        await _until_done(sending.run(), window.lag.watch(), _sample(window), _report(window, report))
    window.cpu_s += time.thread_time() - cpu_before_s
    window.end()
    await asyncio.to_thread(report, window.progress())


async def warm_up(
    connections: Connections,
    target: Endpoint,
    prompts: Sequence[Prompt],
    *,
    load: Load,
    params: RequestParams,
) -> WarmUp:
    """Send `prompts` (see `warm_up_prompts`) at the concurrency of `load` as a closed loop; nothing is recorded."""
    streams = min(load.max_concurrency, len(prompts))
    closed = Load(max_concurrency=streams, num_prompts=len(prompts))
    result = await drive(connections, target, prompts, load=closed, params=params, seed=0)
    errors = tuple(record.error for record in result.requests if record.error)
    counts_chunks = all(record.error or record.chunk_tokens is not None for record in result.requests)
    return WarmUp(len(result.requests), result.duration_s, errors, counts_chunks)


def _planned(prompts: Sequence[Prompt], load: Load, seed: int) -> list[tuple[Prompt, float]]:
    """Return the requests that become due, with their times. Raises UserError for a trace without arrival times."""
    if load.arrivals != "trace":
        return list(zip(prompts, intended_send_s(load, seed).tolist(), strict=False))
    times_s = [prompt.arrival_s for prompt in prompts if prompt.arrival_s is not None]
    if len(times_s) != len(prompts):
        raise UserError(f"load {load.name} replays a trace, but {NO_TRACE}")
    in_order = [prompts[index] for index in np.argsort(times_s, kind="stable")]
    return list(zip(in_order, intended_send_s(load, seed, sorted(times_s)).tolist(), strict=False))


def _numbered(plan: Sequence[tuple[Prompt, float]], first: int = 0) -> Iterator[tuple[int, tuple[Prompt, float]]]:
    """Yield each prompt with the index of its first request; the turns of a session have consecutive ones."""
    index = first
    for prompt, offset_s in plan:
        yield index, (prompt, offset_s)
        index += prompt.requests


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Turn off garbage collection, and let no other thread hold the interpreter for long."""
    interval_s = sys.getswitchinterval()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.enable()
        gc.unfreeze()


async def _until_done(work: Awaitable[None], *watchers: Awaitable[None]) -> None:
    """Wait for the work, or for the first watcher that raises; then stop whatever is still running."""
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


async def _report(window: Window, report: OnProgress) -> None:
    """Report the progress, in a thread because the callback may write to a busy database."""
    while True:
        await asyncio.sleep(_REPORT_EVERY_S)
        await asyncio.to_thread(report, window.progress())


def _one_at_a_time(on_progress: OnProgress | None) -> OnProgress:
    """Serialise the calls: the last one must not overtake one whose thread is still busy when the window ends."""
    lock = threading.Lock()

    def report(progress: LoadProgress) -> None:
        with lock:
            if on_progress:
                on_progress(progress)

    return report


@dataclass(frozen=True)
class Sending:
    """Takes the `waiting` prompts (index, prompt, offset in s) in order, on `max_concurrency` streams.

    Once `over` is set nothing more is sent.
    """

    connections: Connections
    target: Endpoint
    params: RequestParams
    waiting: Iterator[tuple[int, tuple[Prompt, float]]]
    window: Window
    over: asyncio.Event

    async def run(self) -> None:
        """Run until every stream has read its last answer. Streams begin one after the other, with reads in between:
        else the first chunks would wait for the last request.
        """
        async with asyncio.TaskGroup() as streams:
            for _ in range(self.window.load.max_concurrency):
                streams.create_task(self._stream())
                await asyncio.sleep(0)

    async def _stream(self) -> None:
        """Take the next prompt, wait for its time, send it and read the answer; then the turns that follow."""
        window, load = self.window, self.window.load
        until_s = load.duration_s
        for index, (prompt, offset_s) in self.waiting:
            free_s = window.clock()
            late = until_s is not None and free_s > until_s
            if window.problem or (late and load.closed_loop):
                return
            due_s = free_s if load.closed_loop else offset_s
            if late or not await _reached(due_s - free_s, self.over):
                if not window.problem:
                    why = _ENOUGH if window.ended_early else _NO_STREAM.format(until_s) if late else _NO_SERVER
                    self._leave_out(prompt, 0, index, due_s, why)
                continue
            record = await self._send(index, prompt, due_s, free_s)
            if prompt.later:
                await self._go_on(index, prompt, record)

    async def _go_on(self, index: int, first: Prompt, record: RequestRecord) -> None:
        """Send a session's later turns, each after the previous answer and its think time."""
        window, until_s, prompt = self.window, self.window.load.duration_s, first
        for number, turn in enumerate(first.later, start=1):
            if window.problem:
                return
            ended_s = window.clock()
            due_s = ended_s + turn.wait_s
            if record.error is not None:
                self._leave_out(first, number, index + number, due_s, _NO_ANSWER)
                return
            if until_s is not None and due_s > until_s:
                return
            if not await _reached(turn.wait_s, self.over):
                why = _ENOUGH if window.ended_early else _NO_SERVER
                self._leave_out(first, number, index + number, due_s, why)
                return
            prompt = next_turn(prompt, number, turn, record.output_text, record.reasoning_chars or 0)
            record = await self._send(index + number, prompt, due_s, ended_s)

    def _leave_out(self, first: Prompt, from_turn: int, index: int, due_s: float, why: str) -> None:
        """Record the turns of a session from this one on as failed and never sent."""
        for number in range(from_turn, first.requests):
            prompt = first if number == 0 else next_turn(first, number, first.later[number - 1], "")
            at = index + number - from_turn
            self.window.add(unsent(prompt, self.params, index=at, intended_send_s=due_s, why=why), due_s)

    async def _send(self, index: int, prompt: Prompt, due_s: float, free_s: float) -> RequestRecord:
        window, answer = self.window, Answer()
        window.answering[answer] = window.clock()
        record = await send(
            self.connections,
            self.target,
            prompt,
            self.params,
            window.clock,
            index=index,
            intended_send_s=due_s,
            answer=answer,
        )
        del window.answering[answer]
        window.add(record, due_s=max(due_s, free_s))
        if window.problem or window.ended_early:
            self.over.set()
        return record


async def _reached(delay_s: float, end: asyncio.Event) -> bool:
    """Wait for this delay; return False if `end` came first or was already set."""
    if delay_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await end.wait()
    return not end.is_set()
