"""One run: warm up, read the counters, send the load, read the counters again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

import aiohttp

from jobs.datasets.prompt import Prompt, warm_up_prompts
from lab.metrics.records import ClientHealth, RequestRecord, TelemetrySample
from lab.storable import MOST_CHARS, storable
from lab.study import Study
from lab.study.plan import PlannedRun
from workers.engine_runtime.launch import Process, RunningEngine
from workers.engine_runtime.readiness import is_healthy
from workers.load.client import RequestParams, open_session, read_page
from workers.load.driver import LoadResult, OnProgress, drive, warm_up
from workers.probes.telemetry import merged
from workers.probes.window_probes import NO_PAGES, Probes, probing

logger = logging.getLogger(__name__)
#: The warm-up fills every stream at least once, with enough different prompts for the engine to compile its kernels.
_MIN_WARMUP_REQUESTS = 4
#: An engine that has measured needs at most the kernels of another batch size, which one request per stream runs.
_MIN_REWARMING_REQUESTS = 1
#: A few rounds of every stream run each kernel of drafting and verifying; `slow_first_requests` finds what they missed.
_MAX_WARMUP_TOKENS = 10
#: A broken connection is seen at once, the death of the engine behind it a little later.
_DEATH_SHOWS_WITHIN_S = 5.0
_POLL_EVERY_S = 0.1
#: vLLM's message that blocks of its cache are in use; the blocks of the warm-up's last answers are freed in a moment.
_REFUSED = re.compile(rb'\s*\{\s*"success"\s*:\s*false\s*\}\s*')
_HELD = "the engine answered that parts of it were still in use"
_RESET_WITHIN_S = 2.0


@dataclass(frozen=True)
class Measured:
    """The result of one run; `error` is the reason why it failed. A run that could not start has only the error."""

    error: str | None = None
    engine_died: bool = False
    warmup_began_s: float = 0.0  # time.monotonic
    warmup_requests: int = 0  # answered ones: a refused request warms nothing up
    warmup_s: float | None = None
    reset_problem: str | None = None  # why the prefix cache may be warm
    duration_s: float | None = None
    ended_early: str | None = None  # of a trial; no failure
    requests: tuple[RequestRecord, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    client: ClientHealth | None = None
    probes: Probes = field(default_factory=Probes)


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

    `idle` are the engines of other arms that are up beside it, by the arm's name. `warmed`: the engine has measured
    since its start. `window` keeps this machine quiet; it is entered after the warm-up.
    """
    endpoint, load, workload, trial = engine.command.endpoint, run.load, run.workload, run.trial
    params = RequestParams(study.sampling, workload.output_tokens, workload.ignore_eos, request_timeout_s)
    warm_params = replace(params, output_tokens=min(params.output_tokens, _MAX_WARMUP_TOKENS))
    least = _MIN_REWARMING_REQUESTS if warmed else _MIN_WARMUP_REQUESTS
    warm_prompts = warm_up_prompts(prompts, max(least, load.max_concurrency))
    warmup_began_s = time.monotonic()
    async with (
        open_session(endpoint) as session,
        endpoint.connections() as connections,
        _watching(engine) as gone,
    ):
        warm = await warm_up(connections, endpoint, warm_prompts, load=load, params=warm_params)
        async with window():
            reset_problem = await _reset_prefix_cache(session, engine)
            async with probing(engine, session, idle) as probes:
                done = await drive(
                    connections,
                    endpoint,
                    prompts,
                    load=load,
                    params=params,
                    seed=study.seed if trial is None else trial.arrivals_seed,
                    on_progress=on_progress,
                    end=gone,
                    trial=None if trial is None else (study.slo, trial.search.slo_share),
                )
    why_died = await _why_died(engine, done)
    return Measured(
        error=why_died or done.problem or _why_all_failed(done.requests),
        engine_died=why_died is not None,
        warmup_began_s=warmup_began_s,
        warmup_requests=warm.answered,
        warmup_s=warm.duration_s,
        reset_problem=reset_problem,
        duration_s=done.duration_s,
        ended_early=done.ended_early,
        requests=done.requests,
        telemetry=merged(done.telemetry, probes.readings),
        client=done.client,
        probes=probes,
    )


def _why_all_failed(requests: Sequence[RequestRecord]) -> str | None:
    errors = [request.error for request in requests if request.error]
    return (
        f"all {len(errors)} requests failed, the first: {errors[0]}"
        if errors and len(errors) == len(requests)
        else None
    )


async def _why_died(engine: RunningEngine, done: LoadResult) -> str | None:
    """Return why the engine ended, or None if it runs; after a failure, wait, as it may be about to die."""
    if done.problem is None and not any(request.error for request in done.requests):
        return None
    give_up_s = time.monotonic() + _DEATH_SHOWS_WITHIN_S
    while (why := engine.why_dead()) is None and time.monotonic() < give_up_s:
        if engine.command.endpoint.proxy is not None or await is_healthy(engine.command.endpoint):
            return None
        await asyncio.sleep(_POLL_EVERY_S)
    return why


@contextlib.asynccontextmanager
async def _watching(engine: RunningEngine) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the engine's process has ended, so that no further arrivals are awaited."""
    gone = asyncio.Event()

    async def watch() -> None:
        while engine.process.exit_status is None:  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(_POLL_EVERY_S)
        gone.set()

    watcher = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watcher.cancel()


async def _reset_prefix_cache(session: aiohttp.ClientSession, engine: RunningEngine) -> str | None:
    """Make prompts that were sent in an earlier cell as expensive as the first time. Return why that failed, or None.

    An engine without such a request answers 404, a foreign server any refusal; each run's counters show how much came
    from the cache. vLLM refuses while it still holds blocks of the last answers. A second tier of caches is asked
    where there is a first; if that does nothing, the counters of its hits say so.
    """
    command = engine.command
    if command.kind.reset_path is None:
        return None
    if command.endpoint.proxy is not None:
        return NO_PAGES
    url, until_s = f"{command.endpoint.base_url}{command.kind.reset_path}", time.monotonic() + _RESET_WITHIN_S
    has_cache = False
    problem: str | None = _HELD
    while problem == _HELD and time.monotonic() < until_s:
        has_cache, problem = await _reset(session, url, foreign=command.endpoint.foreign)
        if problem == _HELD:
            await asyncio.sleep(_POLL_EVERY_S)
    if problem is not None:
        logger.warning("%s: the prefix cache was not reset: %s", url, problem)
    elif has_cache and command.kind.reset_tiers_path is not None:
        tiers_url = f"{command.endpoint.base_url}{command.kind.reset_tiers_path}"
        _, tiers_problem = await _reset(session, tiers_url, foreign=command.endpoint.foreign)
        if tiers_problem is not None:
            logger.warning("%s: caches behind the prefix cache were not reset: %s", tiers_url, tiers_problem)
    return problem


async def _reset(session: aiohttp.ClientSession, url: str, *, foreign: bool) -> tuple[bool, str | None]:
    """Return whether the server has such a request, and what went wrong."""
    try:
        async with session.post(url, allow_redirects=False) as response:
            status, page = response.status, await read_page(response)
    except TimeoutError:
        return True, "no answer came in time"
    except (aiohttp.ClientError, OSError) as error:
        return True, storable(f"{type(error).__name__}: {error}", MOST_CHARS)
    except Exception as bug:
        logger.exception("what came from %s could not be read", url)
        return True, storable(
            f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log", MOST_CHARS
        )
    if status == 404 or (foreign and 300 <= status < 500):
        return False, None
    if not 200 <= status < 300:
        return True, f"HTTP {status}"
    return True, _HELD if _REFUSED.fullmatch(page) else None
