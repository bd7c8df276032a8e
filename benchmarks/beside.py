"""Part beside: the same cell on an idle machine, and in a home where all of Drafthouse is at work.

Both homes measure one engine, through the worker, in turns. In the busy one an ingester runs on a large warehouse, and
two visitors of the page open a page each second. Aim: throughput and medians differ by less than 1 %. The interval is
that of the ratio's geometric mean over all pairs, 95 %; the last row is the work beside the windows by their own
records, in seconds.

The engine is first a server that answers at a steady rate and hardly uses a processor, as one on a GPU does, then vLLM
on this machine, which on a CPU competes with everything for its cores.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.client import STUDY as SERVED
from benchmarks.processes import measured_study, own_home
from benchmarks.rate import TICK_S
from benchmarks.reading.filling import Size, filled_home
from benchmarks.reading.pages import served
from benchmarks.table import Row, alternated, show
from host import quiet
from host.settings import ENVIRONMENT_PREFIX, Settings
from jobs.engines.models import check_model
from lab.errors import EngineError
from lab.metrics.latency import tpot_ms, ttft_ms
from lab.study import Arm, Load, Server, Study, Workload
from services.verifying.pace import beside_steady_server
from services.verifying.processes import serving
from services.verifying.rival import TARGET
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.migrate import migrate

LOAD, WORKLOAD = Load(max_concurrency=4, num_prompts=32), Workload(output_tokens=64)
_READY_S = 600.0


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run, and the seconds of other work that it recorded."""

    output_tok_per_s: float
    ttft_ms: float  # median
    tpot_ms: float  # median
    beside_s: float


def run(settings: Settings, repeats: int, size: Size | None = None) -> None:
    """Measure and print. Raises UserError if the engine or the models are missing."""
    size = size or Size()
    check_model(settings.models_dir, TARGET)
    beside_steady_server(lambda base_url: measure(settings, base_url, "steady", repeats, size=size), TICK_S)
    with own_home(settings) as own, serving(own, SERVED, SERVED.arms[0]) as base_url:
        measure(settings, base_url, TARGET, repeats, size=size)


def measure(
    settings: Settings,
    base_url: str,
    model: str,
    repeats: int,
    *,
    size: Size,
    load: Load = LOAD,
    workload: Workload = WORKLOAD,
) -> None:
    """Measure a running server and print."""
    arm = Arm(name="served", engine="endpoint", server=Server(base_url=base_url, served_model=model))
    study = Study(name="beside", target=TARGET, arms=(arm,), workloads=(workload,), loads=(load,))
    with own_home(settings) as alone, filled_home(settings, size) as busy:
        migrate(alone)
        shutil.copy2(busy.warehouse_file, busy.master_file)
        gigabytes = busy.master_file.stat().st_size / 1e9
        with _at_work(busy):
            rows, intervals = _compare(alone, busy, study, repeats)
    title = f"{model}, {load.num_prompts} prompts x {workload.output_tokens} tokens, concurrency {load.max_concurrency}"
    show(f"Beside: {title}, {repeats} x A B B A, warehouse of {gigabytes:.2f} GB", "nothing beside it", rows)
    print("\n".join(intervals))


def _compare(alone: Settings, busy: Settings, study: Study, repeats: int) -> tuple[list[Row], list[str]]:
    _one(alone, study)  # the server's first requests are slower than all others
    beside, nothing = alternated("beside", repeats, lambda: _one(busy, study), lambda: _one(alone, study))
    figures = {"output tok/s": "output_tok_per_s", "median TTFT ms": "ttft_ms", "median TPOT ms": "tpot_ms"}
    rows = [Row.of(name, figure, beside, nothing, "0.99 .. 1.01") for name, figure in figures.items()]
    intervals = [f"  {row.name}: {interval(row.ours, row.theirs)}" for row in rows]
    recorded = ", ".join(f"{run.beside_s:.2f}" for run in beside)
    return rows, [*intervals, f"  seconds of other work within each window: {recorded}"]


def interval(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Describe the geometric mean of the pairs' ratios with its 95 % interval (Student's t of their logarithms)."""
    logs = np.log(np.array(ours) / np.array(theirs))
    half = float(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs)))
    mean, low, high = (math.exp(value) for value in (logs.mean(), logs.mean() - half, logs.mean() + half))
    return f"ratio {mean:.4f}, 95 % interval {low:.4f} to {high:.4f}"


def _one(settings: Settings, study: Study) -> RunFigures:
    """Measure the study's only run through the worker. Raises EngineError if it failed."""
    job_id, _ = measured_study(settings, study)
    (bundle,) = (read_bundle(folder) for folder in find_bundles(settings.bundles) if folder.parent.name == job_id)
    requests, window_s = bundle.requests, bundle.run.duration_s or math.nan
    tokens = float(np.nansum(requests.numbers("completion_tokens")))
    beside_s = sum(work.seconds for work in bundle.run.beside or ())
    return RunFigures(
        tokens / window_s, float(np.nanmedian(ttft_ms(requests))), float(np.nanmedian(tpot_ms(requests))), beside_s
    )


@contextmanager
def _at_work(settings: Settings) -> Iterator[None]:
    """Run an ingester, the page and its visitors on a home while the block runs."""
    home = {f"{ENVIRONMENT_PREFIX}HOME": str(settings.home.absolute())}
    with ExitStack() as stack:
        stack.enter_context(_process(("-m", "warehouse.ingest.service"), home))
        url, _ = stack.enter_context(served(settings))
        stack.enter_context(_process(("-m", "benchmarks.reading.visitors", url), {}))
        until_s = time.monotonic() + _READY_S
        while not quiet.under_way(settings.home, "ingester"):
            if time.monotonic() > until_s:
                raise EngineError("the ingester did not start")
            time.sleep(0.1)
        yield


@contextmanager
def _process(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    command = (sys.executable, *arguments)
    with subprocess.Popen(command, env=os.environ | environment, start_new_session=True) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
