"""Part progress: the same window with and without everything else that runs while a job is measured.

With: the job's heartbeat writes its progress into the job table twice a second, and the probes read host, GPUs and the
engine's metrics page each second. Without: the client alone. Aim: the same output throughput within 1 %. On a machine
with more noise than that, the last row still bounds the loss: measuring cannot cost the engine more than the processor
time that it uses.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import sqlalchemy as sa

from access.local import local_actor
from benchmarks.client import LOAD, STUDY, WORKLOAD
from benchmarks.processes import own_home
from benchmarks.table import Row, alternated, show
from host.settings import Settings
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Prompt
from jobs.engine_logs import engine_log
from jobs.engines.models import check_model
from jobs.fleet.leases import claim
from jobs.queue import submit
from jobs.table import Job
from lab.errors import EngineError
from lab.schedule import Step
from lab.study.plan import plan
from services.verifying.our_client import Figures, figures
from services.verifying.rival import TARGET
from warehouse.app_db.engine import open_engine
from warehouse.migrate import migrate
from workers.engine_runtime.launch import Process, RunningEngine, start_engine
from workers.heartbeat import Heartbeat
from workers.job_progress import JobStatus
from workers.load.client import RequestParams, open_session
from workers.load.connections import Connections
from workers.load.driver import LoadResult, OnProgress, drive
from workers.probes.window_probes import probing

_WORKER = "benchmark"
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class WindowFigures(Figures):
    """The figures of a window, and the processor time that this process spent on it."""

    cpu_percent: float  # of all processors of this machine


def _measured(window: Callable[[], LoadResult]) -> WindowFigures:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    spent = figures(window())
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return WindowFigures(**vars(spent), cpu_percent=100 * cpu_s / wall_s / (os.cpu_count() or 1))


@dataclass(frozen=True)
class Windows:
    """One running engine and a claimed job, for windows with and without observers."""

    engine: RunningEngine
    database: sa.Engine
    job: Job
    prompts: Sequence[Prompt]
    lease_s: float

    def watched(self) -> WindowFigures:
        step = Step(plan(self.job.study)[0])
        status = JobStatus([step.launch])
        with Heartbeat(self.database, self.job, _WORKER, self.lease_s) as heartbeat:
            status.step(step)
            status.warming_up(step.launch.runs[0])
            heartbeat.watch(status.snapshot)
            status.window_begins(step.launch.runs[0])
            return _measured(lambda: heartbeat.run(self._window(status.measuring, probed=True)))

    def alone(self) -> WindowFigures:
        return _measured(lambda: asyncio.run(self._window(None, probed=False)))

    async def _window(self, on_progress: OnProgress | None, *, probed: bool) -> LoadResult:
        study, endpoint = self.job.study, self.engine.command.endpoint
        params = RequestParams(study.sampling, WORKLOAD.output_tokens, ignore_eos=True, timeout_s=_TIMEOUT_S)
        async with (
            open_session(endpoint) as session,
            Connections() as connections,
            probing(self.engine, session, {}) if probed else nullcontext(),
        ):
            return await drive(
                connections,
                endpoint,
                self.prompts,
                load=LOAD,
                params=params,
                seed=study.seed,
                on_progress=on_progress,
            )


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if the engine or the models are missing."""
    check_model(settings.models_dir, TARGET)
    prompts = load_prompts(settings, WORKLOAD, LOAD.num_prompts, seed=0, target=TARGET)
    with own_home(settings) as own:
        migrate(own)
        with open_engine(own.app_database_url) as database:
            submit(own, STUDY, actor=local_actor())
            job = claim(database, _WORKER, own.lease_s)
            if job is None:
                raise EngineError("the benchmark's own job is not in its own queue")
            with _running(own) as engine:
                rows = _compare(Windows(engine, database, job, prompts, own.lease_s), repeats)
    title = f"{LOAD.num_prompts} prompts x {WORKLOAD.output_tokens} tokens, concurrency {LOAD.max_concurrency}"
    show(f"Progress and probes: {title}, {repeats} x A B B A", "the client alone", rows)


def _compare(windows: Windows, repeats: int) -> list[Row]:
    windows.alone()  # the server's first requests are slower than all others
    sides = alternated("progress", repeats, windows.watched, windows.alone)
    return [
        Row.of("output tok/s", "output_tok_per_s", *sides, "0.99 .. 1.01"),
        Row.of("median TTFT ms", "ttft_ms", *sides, "no aim"),
        Row.of("median TPOT ms", "tpot_ms", *sides, "no aim"),
        Row.of("own CPU, % of the machine", "cpu_percent", *sides, "1 more"),
    ]


@contextmanager
def _running(settings: Settings) -> Iterator[RunningEngine]:
    """Start the study's engine as Drafthouse does."""
    started: list[Process] = []
    try:
        start = start_engine(
            settings,
            STUDY,
            STUDY.arms[0],
            engine_log(settings.logs_dir, "bench"),
            lambda _command, process: started.append(process),
        )
        yield asyncio.run(start)
    finally:
        for process in started:
            process.stop(grace_s=5.0)
