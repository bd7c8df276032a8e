"""One run: warm up, read the counters, send the load, read the counters again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import aiohttp

from jobs.datasets.prompt import Prompt, warm_up_prompts
from lab.errors import EngineError
from lab.metrics.records import ClientHealth, IdleEngine, RequestRecord, ServerCounters, TelemetrySample
from lab.storable import MOST_CHARS, storable
from lab.study import Study
from lab.study.plan import PlannedRun
from workers.engine_runtime.launch import Process, RunningEngine
from workers.engine_runtime.readiness import is_healthy
from workers.load.client import RequestParams, open_session, read_page
from workers.load.connections import Connections
from workers.load.driver import OnProgress, drive, warm_up
from workers.probes.engine_metrics import read_counters
from workers.probes.idle_engines import IdleEngines
from workers.probes.nvml import NO_GPUS, EngineGpus
from workers.probes.telemetry import probes_of

logger = logging.getLogger(__name__)
#: The warm-up fills every stream at least once, with enough different prompts for the engine to compile its kernels.
_MIN_WARMUP_REQUESTS = 4
#: An engine that has measured lacks at most the kernels of another batch, which one request of each stream runs.
_MIN_REWARMING_REQUESTS = 1
#: A few rounds of every stream run each kernel of drafting and verifying; `slow_first_requests` finds what they missed.
_MAX_WARMUP_TOKENS = 10
#: A broken connection is seen at once, the death of the engine behind it a little later.
_DEATH_SHOWS_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1
#: How vLLM says that blocks of its cache are held; those of the warm-up's last answers are free in a moment.
_REFUSED = re.compile(rb'\s*\{\s*"success"\s*:\s*false\s*\}\s*')
_HELD = "the engine answered that parts of it were still in use"
_RESET_WITHIN_S = 2.0


@dataclass(frozen=True)
class Measured:
    """The result of one run; `error` is the reason why it failed."""

    started_at: str  # UTC, ISO 8601
    warmup_began_s: float  # time.monotonic
    began_s: float | None = None  # time.monotonic, when the window began
    ended_s: float | None = None  # time.monotonic, when the window ended
    error: str | None = None
    ended_early: str | None = None  # of a trial; no failure
    engine_died: bool = False
    duration_s: float | None = None
    warmup_requests: int = 0  # answered ones: a refused request warms nothing up
    warmup_s: float | None = None
    counters_before: ServerCounters | None = None
    counters_after: ServerCounters | None = None
    counters_problem: str | None = None  # why the server's counters are unknown
    reset_problem: str | None = None  # why its prefix cache may be warm
    log_begin_bytes: int | None = None
    log_end_bytes: int | None = None
    requests: tuple[RequestRecord, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    client: ClientHealth | None = None
    idle_engines: tuple[IdleEngine, ...] = ()
    gpus: EngineGpus = NO_GPUS


async def measure(
    engine: RunningEngine,
    run: PlannedRun,
    study: Study,
    prompts: Sequence[Prompt],
    *,
    request_timeout_s: float,
    window: Callable[[], AbstractAsyncContextManager[None]],
    on_progress: OnProgress,
    idle: Mapping[str, Process],
    warmed: bool = False,
) -> Measured:
    """Measure `run` on `engine`. An engine that fails or dies meanwhile is a result, not an exception.

    `idle` are the engines of other arms that are up beside it, by the arm's name.
    `warmed`: it has measured since its start.
    `window` keeps this machine quiet; it is entered between warm-up and window.
    """
    endpoint, load, workload = engine.command.endpoint, run.load, run.workload
    params = RequestParams(study.sampling, workload.output_tokens, workload.ignore_eos, request_timeout_s)
    measured = Measured(started_at=_now(), warmup_began_s=time.monotonic())
    async with (
        open_session(endpoint) as session,
        Connections(checked=endpoint.checked) as connections,
        _watching(engine) as gone,
    ):
        warm_ask = replace(params, output_tokens=min(params.output_tokens, _MAX_WARMUP_TOKENS))
        least = _MIN_REWARMING_REQUESTS if warmed else _MIN_WARMUP_REQUESTS
        warm_prompts = warm_up_prompts(prompts, max(least, load.max_concurrency))
        warm = await warm_up(connections, endpoint, warm_prompts, load=load, params=warm_ask)
        measured = replace(measured, warmup_requests=warm.answered, warmup_s=warm.duration_s)
        async with window():
            measured = replace(measured, reset_problem=await _reset_prefix_cache(session, engine))
            probes, idlers = await probes_of(engine, session, idle.values()), IdleEngines(idle)
            await asyncio.to_thread(idlers.begin)
            before, problem = await _counters(session, engine)
            measured = replace(measured, counters_before=before, counters_problem=problem, gpus=probes.of_engine)
            measured = replace(measured, log_begin_bytes=_log_bytes(engine))
            async with probes.watching():
                measured = replace(measured, started_at=_now(), began_s=time.monotonic())
                done = await drive(
                    connections,
                    endpoint,
                    prompts,
                    load=load,
                    params=params,
                    seed=study.seed if run.trial is None else run.trial.arrivals_seed,
                    on_progress=on_progress,
                    end=gone,
                    trial=None if run.trial is None else (study.slo, run.trial.search.slo_share),
                )
                log_end_bytes = _log_bytes(engine)
                measured = replace(measured, idle_engines=await asyncio.to_thread(idlers.end))
            measured = replace(
                measured,
                ended_s=time.monotonic(),
                log_end_bytes=log_end_bytes,
                duration_s=done.duration_s,
                ended_early=done.ended_early,
                requests=done.requests,
            )
            measured = replace(
                measured, telemetry=probes.beside(done.telemetry), client=done.client, error=done.problem
            )
            if problem is None:
                after, problem = await _counters(session, engine)
                measured = replace(measured, counters_after=after, counters_problem=problem)
    return await _judged(engine, measured)


async def _judged(engine: RunningEngine, measured: Measured) -> Measured:
    """Add why the run failed, if it did: the engine's death first, because everything else follows from it."""
    measured = replace(measured, ended_s=measured.ended_s or time.monotonic())
    errors = [record.error for record in measured.requests if record.error]
    if measured.error or errors:
        if (why := await _why_dead(engine)) is not None:
            return replace(measured, error=why, engine_died=True)
        if measured.error is None and len(errors) == len(measured.requests):
            return replace(measured, error=f"all {len(errors)} requests failed, the first: {errors[0]}")
    return measured


async def _why_dead(engine: RunningEngine) -> str | None:
    """Return why the engine ended, or None if it lives. Call it after a failure, when the engine may be about to
    die.
    """
    give_up_s = time.monotonic() + _DEATH_SHOWS_WITHIN_S
    while (why := engine.why_dead()) is None and time.monotonic() < give_up_s:
        if await is_healthy(engine.command.endpoint):
            return None
        await asyncio.sleep(_LOOK_EVERY_S)
    return why


@contextlib.asynccontextmanager
async def _watching(engine: RunningEngine) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the engine's process has ended, so that no further arrivals are awaited."""
    gone = asyncio.Event()

    async def watch() -> None:
        while engine.process.exit_status is None:  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(_LOOK_EVERY_S)
        gone.set()

    watcher = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watcher.cancel()


async def _counters(session: aiohttp.ClientSession, engine: RunningEngine) -> tuple[ServerCounters | None, str | None]:
    """Return the counters, or None and why they cannot be read. The answers of the run are whole without them."""
    command = engine.command
    try:
        counters = await read_counters(
            session, command.endpoint.base_url, command.kind.metrics, required=not command.endpoint.foreign
        )
    except EngineError as error:
        logger.warning("the counters of a run are unknown: %s", error)
        return None, str(error)
    return counters, None


async def _reset_prefix_cache(session: aiohttp.ClientSession, engine: RunningEngine) -> str | None:
    """Make prompts that were sent in an earlier cell as expensive as the first time. Return why that failed, or None.

    An engine without such a request answers 404, and a foreign server whatever it refuses with; each run's counters
    show how much came from the cache. vLLM refuses while it still holds blocks of the last answers.
    """
    command = engine.command
    if command.kind.reset_path is None:
        return None
    url, until_s = f"{command.endpoint.base_url}{command.kind.reset_path}", time.monotonic() + _RESET_WITHIN_S
    problem: str | None = _HELD
    while problem == _HELD and time.monotonic() < until_s:
        problem = await _reset(session, url, foreign=command.endpoint.foreign)
        if problem == _HELD:
            await asyncio.sleep(_LOOK_EVERY_S)
    if problem is not None:
        logger.warning("%s: the prefix cache was not reset: %s", url, problem)
    return problem


async def _reset(session: aiohttp.ClientSession, url: str, *, foreign: bool) -> str | None:
    try:
        async with session.post(url, allow_redirects=False) as response:
            status, page = response.status, await read_page(response)
    except TimeoutError:
        return "no answer came in time"
    except (aiohttp.ClientError, OSError) as error:
        return storable(f"{type(error).__name__}: {error}", MOST_CHARS)
    except Exception as bug:
        logger.exception("what came from %s could not be read", url)
        return storable(f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log", MOST_CHARS)
    if status == 404 or (foreign and 300 <= status < 500):
        return None
    if not 200 <= status < 300:
        return f"HTTP {status}"
    return _HELD if _REFUSED.fullmatch(page) else None


def _log_bytes(engine: RunningEngine) -> int | None:
    """Return the length of the engine's log; None for a foreign server, whose log is elsewhere."""
    try:
        return engine.command.log.stat().st_size if engine.command.words else None
    except FileNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat()
