"""One run: warm up; in each of its windows read the counters, send prompts, read the counters again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

import aiohttp

from jobs.datasets.prompt import Prompt, warm_up_prompts
from lab.metrics.records import ClientHealth, RequestRecord, RunWindow, TelemetrySample
from lab.storable import MOST_CHARS, storable
from lab.study import Study
from lab.study.plan import PlannedRun
from workers.engine_runtime.launch import Process, RunningEngine
from workers.engine_runtime.readiness import is_healthy
from workers.load.client import RequestParams, open_session, read_page
from workers.load.connections import Connections
from workers.load.driver import LoadResult, OnProgress, WarmUp, drive, drive_on, result_of, warm_up
from workers.load.window import Window
from workers.probes.telemetry import merged
from workers.probes.window_probes import NO_PAGES, Probes, growth, joined, probing

logger = logging.getLogger(__name__)
#: The warm-up fills every stream at least once, with enough different prompts for the engine to compile its kernels.
_MIN_WARMUP_REQUESTS = 4
#: An engine that has measured needs at most the kernels of another batch size, which one request per stream runs.
_MIN_REWARMING_REQUESTS = 1
#: A few rounds of every stream run each kernel of drafting and verifying; `slow_first_requests` finds what they missed.
_MAX_WARMUP_TOKENS = 10
#: A broken connection is seen at once, the death of the engine behind it a little later.
_DEATH_SHOWS_WITHIN_S = 10.0
_POLL_EVERY_S = 0.1
#: vLLM's message that blocks of its cache are in use; the blocks of the warm-up's last answers are freed in a moment,
#: on a busy machine with the engine's next turn.
_REFUSED = re.compile(rb'\s*\{\s*"success"\s*:\s*false\s*\}\s*')
_HELD = "the engine answered that parts of it were still in use"
_RESET_WITHIN_S = 20.0


@dataclass(frozen=True)
class Measured:
    """The result of one run; `error` is the reason why it failed. A run that could not start has only the error."""

    error: str | None = None
    warmup_requests: int = 0  # answered ones: a refused request warms nothing up
    warmup_s: float | None = None
    reset_problem: str | None = None  # why the prefix cache may be warm
    duration_s: float | None = None
    windows: tuple[RunWindow, ...] | None = None  # of a run with several
    ended_early: str | None = None  # of a trial; no failure
    requests: tuple[RequestRecord, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    client: ClientHealth | None = None
    probes: Probes = field(default_factory=Probes)


class Measurement:
    """One run on one engine: `warm_up`, then `measure` for each window, then `result`.

    Between windows other runs may be measured, on this engine too. An engine that fails or dies is a result, not an
    exception.
    """

    def __init__(self, engine: RunningEngine, run: PlannedRun, study: Study, *, request_timeout_s: float) -> None:
        self.engine, self.run, self.study = engine, run, study
        self.problem: str | None = None  # why the run has failed and needs no more windows
        self.engine_died = False
        self.took_s = 0.0  # warm-ups and windows
        workload = run.workload
        self._params = RequestParams(
            study.sampling, workload.output_tokens, workload.ignore_eos, timeout_s=request_timeout_s
        )
        self._warm: list[WarmUp] = []
        self._probes: list[Probes] = []
        self._reset_problem: str | None = None
        self._window: Window | None = None
        self._done: LoadResult | None = None  # of a run with one window

    async def warm_up(self, prompts: Sequence[Sequence[Prompt]], *, warmed: bool) -> None:
        """Send requests like the `prompts` of each workload that do not count. `warmed`: the engine has answered since
        its start.
        """
        began_s, endpoint, load = time.monotonic(), self.engine.command.endpoint, self.run.load
        least = _MIN_REWARMING_REQUESTS if warmed else _MIN_WARMUP_REQUESTS
        count = max(least, load.max_concurrency, len(prompts))
        mixed = [each for places in zip_longest(*(some[:count] for some in prompts)) for each in places if each]
        warm_prompts = warm_up_prompts(mixed, count)
        params = replace(self._params, output_tokens=min(self._params.output_tokens, _MAX_WARMUP_TOKENS))
        async with endpoint.connections() as connections:
            self._warm.append(await warm_up(connections, endpoint, warm_prompts, load=load, params=params))
        if self._warm[-1].errors and (why := await _why_died(self.engine)) is not None:
            self.engine_died, self.problem = True, why
        self.took_s += time.monotonic() - began_s

    def is_warm_by(self, other: Measurement) -> None:
        """Take the warm-up of another run of the same engine and load for this one's."""
        self._warm = [*other._warm]

    @property
    def has_warmed(self) -> bool:
        """Return whether every request of the warm-ups was answered."""
        return not any(warm.errors for warm in self._warm)

    @property
    def counts_chunks(self) -> bool:
        """Return whether the warm-ups' answers came with the number of tokens in each of their chunks."""
        return all(warm.counts_chunks for warm in self._warm)

    async def measure(
        self,
        prompts: Sequence[Prompt],
        *,
        is_whole: bool,
        quiet: Callable[[], AbstractAsyncContextManager[None]],
        on_progress: OnProgress,
        idle: Mapping[str, Process],
    ) -> None:
        """Send the prompts in one window. `is_whole`: they are all of the run's, so that its load keeps its own clock.

        `quiet` keeps this machine quiet. `idle` are the engines of other arms that are up beside it, by the arm's name.
        """
        began_s, endpoint, load = time.monotonic(), self.engine.command.endpoint, self.run.load
        from_s = 0.0 if self._window is None else self._window.end_s
        async with (
            open_session(endpoint) as session,
            endpoint.connections() as connections,
            _watching(self.engine) as gone,
            quiet(),
        ):
            self._reset_problem = await _reset_prefix_cache(session, self.engine) or self._reset_problem
            await connections.open(endpoint.url, min(load.max_concurrency, len(prompts)))
            async with probing(self.engine, session, idle, from_s) as probes:
                if is_whole:
                    await self._drive(connections, prompts, on_progress, gone)
                else:
                    await self._drive_on(connections, prompts, on_progress, gone)
        self._probes.append(probes)
        self.took_s += time.monotonic() - began_s

    async def _drive(
        self, connections: Connections, prompts: Sequence[Prompt], on_progress: OnProgress, gone: asyncio.Event
    ) -> None:
        trial = self.run.trial
        self._done = await drive(
            connections,
            self.engine.command.endpoint,
            prompts,
            load=self.run.load,
            params=self._params,
            seed=self.study.seed if trial is None else trial.arrivals_seed,
            on_progress=on_progress,
            end=gone,
            trial=None if trial is None else (self.study.slo, trial.search.slo_share),
        )
        await self._look_for_death(self._done.requests, self._done.problem)

    async def _drive_on(
        self, connections: Connections, prompts: Sequence[Prompt], on_progress: OnProgress, gone: asyncio.Event
    ) -> None:
        self._window = window = self._window or Window(self.run.load, self.run.load.num_prompts)
        earlier = len(window.records)
        await drive_on(
            window,
            connections,
            self.engine.command.endpoint,
            prompts,
            params=self._params,
            on_progress=on_progress,
            end=gone,
        )
        await self._look_for_death(window.records[earlier:], window.problem)

    async def _look_for_death(self, requests: Sequence[RequestRecord], problem: str | None) -> None:
        """Note why the run has failed: the engine ended, if something went wrong with these requests, or the load."""
        why_died = None
        if problem is not None or any(request.error for request in requests):
            why_died = await _why_died(self.engine)
        self.engine_died, self.problem = why_died is not None, why_died or problem

    def result(self) -> Measured:
        """Return the result of the warm-up and of the windows so far."""
        answered, warmup_s = sum(warm.answered for warm in self._warm), sum(warm.duration_s for warm in self._warm)
        done = result_of(self._window) if self._window is not None else self._done
        if done is None:
            return Measured(self.problem, warmup_requests=answered, warmup_s=warmup_s)
        probes = joined(self._probes)
        return Measured(
            error=self.problem or _why_all_failed(done.requests),
            warmup_requests=answered,
            warmup_s=warmup_s,
            reset_problem=self._reset_problem,
            duration_s=done.duration_s,
            windows=self._windows(),
            ended_early=done.ended_early,
            requests=done.requests,
            telemetry=merged(done.telemetry, probes.readings),
            client=done.client,
            probes=probes,
        )

    def _windows(self) -> tuple[RunWindow, ...] | None:
        if self._window is None or len(self._probes) == 1:
            return None
        return tuple(
            RunWindow(started_at=probes.started_at, start_s=start_s, end_s=end_s, counted=growth(probes))
            for probes, (start_s, end_s) in zip(self._probes, pairwise([0.0, *self._window.ends_s]), strict=True)
        )


def _why_all_failed(requests: Sequence[RequestRecord]) -> str | None:
    errors = [request.error for request in requests if request.error]
    return (
        f"all {len(errors)} requests failed, the first: {errors[0]}"
        if errors and len(errors) == len(requests)
        else None
    )


async def _why_died(engine: RunningEngine) -> str | None:
    """Return why the engine ended, or None if it runs; after a failure, wait, as it may be about to die. The death of a
    foreign server shows nowhere, and many have no /health.
    """
    give_up_s = time.monotonic() + _DEATH_SHOWS_WITHIN_S
    while (why := engine.why_dead()) is None and time.monotonic() < give_up_s:
        if engine.command.endpoint.foreign or await is_healthy(engine.command.endpoint):
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
    from the cache. vLLM refuses while it still holds blocks of the last answers, and SGLang, with status 400, until its
    scheduler has noticed that they have ended. A second tier of caches is reset where there is a first; if that does
    nothing, the counters of its hits say so.
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
        return True, _HELD if status == 400 else f"HTTP {status}"
    return True, _HELD if _REFUSED.fullmatch(page) else None
