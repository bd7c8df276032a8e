"""All readings around one measured window: counters, log, idle engines, GPUs and telemetry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

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
    began_s: float | None = None  # time.monotonic, as is `ended_s`
    ended_s: float | None = None
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
    engine: RunningEngine, session: aiohttp.ClientSession, idle: Mapping[str, Process]
) -> AsyncIterator[Probes]:
    """Probe an engine that has answered requests, around a window. Slow work is done before and after it.

    `idle`: the engines of other arms that are up beside it, by the arm's name.
    """
    command, idle_engines = engine.command, IdleEngines(idle)
    gpus = await asyncio.to_thread(engine_gpus, engine.process)
    gauges = Gauges(command.endpoint, command.kind.metrics if command.endpoint.proxy is None else ())
    telemetry = Telemetry(gauges, gpus, idle.values(), engine.process)
    await asyncio.to_thread(idle_engines.begin)
    probes = Probes(gpus=gpus, readings=telemetry.readings)
    probes.counters_before, probes.counters_problem = await _counters(session, command)
    probes.log_begin_bytes = _log_bytes(command)
    async with telemetry.watching():
        probes.started_at, probes.began_s = utc_now(), time.monotonic()
        yield probes
        probes.log_end_bytes = _log_bytes(command)
        probes.idle_engines = await asyncio.to_thread(idle_engines.end)
    probes.ended_s = time.monotonic()
    if probes.counters_problem is None:
        probes.counters_after, probes.counters_problem = await _counters(session, command)


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
