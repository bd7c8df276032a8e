"""All readings around the measured windows of a run: counters, log, idle engines, GPUs and telemetry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

import aiohttp

from lab.errors import EngineError
from lab.metrics.records import IdleEngine, ServerCounters
from workers.engine_runtime.launch import Command, Process, RunningEngine
from workers.probes.engine_metrics import Gauges, read_counters
from workers.probes.idle_engines import IdleEngines
from workers.probes.nvml import NO_GPUS, EngineGpus, engine_gpus
from workers.probes.telemetry import Reading, Telemetry

logger = logging.getLogger(__name__)
#: Why a server's counters are unknown and its prefix cache was not reset.
NO_PAGES = "only requests are sent through the proxy before the server"


def utc_now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass
class Probes:
    """The readings of `probing` so far: complete after the window, defaults without a window."""

    started_at: str = field(default_factory=utc_now)  # UTC, ISO 8601
    spans_s: tuple[tuple[float, float], ...] = ()  # time.monotonic, begin and end of each window
    counters_before: ServerCounters | None = None
    counters_after: ServerCounters | None = None
    counters_problem: str | None = None  # why the server's counters are unknown
    log_begin_bytes: int | None = None
    log_end_bytes: int | None = None
    idle_engines: tuple[IdleEngine, ...] = ()
    gpus: EngineGpus = NO_GPUS
    readings: Sequence[Reading] = ()


@contextlib.asynccontextmanager
async def probing(
    engine: RunningEngine, session: aiohttp.ClientSession, idle: Mapping[str, Process], from_s: float = 0.0
) -> AsyncIterator[Probes]:
    """Probe an engine that has answered requests, around a window. Slow work is done before and after it.

    `idle`: the engines of other arms that are up beside it, by the arm's name. `from_s`: what the run had measured
    before this window.
    """
    command, idle_engines = engine.command, IdleEngines(idle)
    gpus = await asyncio.to_thread(engine_gpus, engine.process)
    gauges = Gauges(command.endpoint, command.kind.metrics if command.endpoint.proxy is None else ())
    telemetry = Telemetry(gauges, gpus, idle.values(), engine.process, from_s=from_s)
    await asyncio.to_thread(idle_engines.begin)
    probes = Probes(gpus=gpus, readings=telemetry.readings)
    probes.counters_before, probes.counters_problem = await _counters(session, command)
    probes.log_begin_bytes = _log_bytes(command)
    async with telemetry.watching():
        probes.started_at, began_s = utc_now(), time.monotonic()
        yield probes
        probes.log_end_bytes = _log_bytes(command)
        probes.idle_engines = await asyncio.to_thread(idle_engines.end)
    probes.spans_s = ((began_s, time.monotonic()),)
    if probes.counters_problem is None:
        probes.counters_after, probes.counters_problem = await _counters(session, command)


def joined(windows: Sequence[Probes]) -> Probes:
    """Return the readings of a run's windows as those of one window without the time between them. If the server was
    restarted, within a window or between two, the counters are those before and after its restart.
    """
    if len(windows) == 1:
        return windows[0]
    first, last = windows[0], windows[-1]
    problem = next((window.counters_problem for window in windows if window.counters_problem is not None), None)
    before = after = first.counters_before
    for grown in map(growth, windows):
        after = None if after is None or grown is None else _combined(after, grown, 1)
    readings = [counters for window in windows for counters in (window.counters_before, window.counters_after)]
    known = [counters for counters in readings if counters is not None]
    before, after = next((pair for pair in pairwise(known) if _shrank(*pair)), (before, after))
    return Probes(
        started_at=first.started_at,
        spans_s=tuple(span for window in windows for span in window.spans_s),
        counters_before=before,
        counters_after=after,
        counters_problem=problem,
        log_begin_bytes=first.log_begin_bytes,
        log_end_bytes=last.log_end_bytes,
        idle_engines=_mean_use(windows),
        gpus=first.gpus,
        readings=[reading for window in windows for reading in window.readings],
    )


def growth(window: Probes) -> ServerCounters | None:
    """Return how much the counters grew in a window; None if unknown, or if one of them shrank."""
    before, after = window.counters_before, window.counters_after
    return None if before is None or after is None or _shrank(before, after) else _combined(after, before, -1)


def _shrank(before: ServerCounters, after: ServerCounters) -> bool:
    grown = (value for _, value in _combined(after, before, -1) if value is not None)
    return any(min(value, default=0.0) < 0 if isinstance(value, tuple) else value < 0 for value in grown)


def _combined(counters: ServerCounters, others: ServerCounters, sign: int) -> ServerCounters:
    """Add the others to the counters, or with the sign -1 subtract them; None where one is unknown."""
    values: dict[str, object] = {}
    for name, value in counters:
        other = getattr(others, name)
        if isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
            values[name] = tuple(one + sign * more for one, more in zip(value, other, strict=True))
        elif isinstance(value, float) and isinstance(other, float):
            values[name] = value + sign * other
    return ServerCounters.model_validate(values)


def _mean_use(windows: Sequence[Probes]) -> tuple[IdleEngine, ...]:
    """Return the mean use of each engine that was idle in all windows, by their lengths."""
    lengths_s = [sum(end_s - begin_s for begin_s, end_s in window.spans_s) for window in windows]

    def mean(used: Sequence[float | None]) -> float | None:
        known = [percent for percent in used if percent is not None]
        if len(known) < len(used):
            return None
        return sum(percent * length for percent, length in zip(known, lengths_s, strict=True)) / sum(lengths_s)

    by_arm = [{engine.arm: engine for engine in window.idle_engines} for window in windows]
    arms = [arm for arm in by_arm[0] if all(arm in engines for engines in by_arm)]
    return tuple(
        IdleEngine(
            arm=arm,
            cpu_percent=mean([engines[arm].cpu_percent for engines in by_arm]),
            gpu_percent=mean([engines[arm].gpu_percent for engines in by_arm]),
        )
        for arm in arms
    )


async def _counters(session: aiohttp.ClientSession, command: Command) -> tuple[ServerCounters | None, str | None]:
    """Return the counters, or None and why they cannot be read. The run's answers are complete without them."""
    endpoint = command.endpoint
    if endpoint.proxy is not None:
        return None, NO_PAGES
    try:
        return await read_counters(
            session, endpoint.base_url, command.kind.metrics, required=not endpoint.foreign
        ), None
    except EngineError as error:
        logger.warning("the counters of a run are unknown: %s", error)
        return None, str(error)


def _log_bytes(command: Command) -> int | None:
    """Return the length of the engine's log; None for a foreign server, whose log is elsewhere."""
    try:
        return command.log.stat().st_size if command.argv else None
    except FileNotFoundError:
        return None
