"""Part slots: a study of six blocks that three slots share, against the same study on one slot.

The engine is the steady server of part rate: its answers take the same time however many slots ask, so that any loss is
Drafthouse's: a slot that notices the study late, a block that waits for the last one, and the work around each window.
Two arms; a block is one repeat of both. Aim: 0.45 of one slot's wall time, where a third would be without loss. The
workers are up before the study is submitted. The last lines show the cost of neighbours to each run: the medians of
window length and inter-token latency, as ratios.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from access.local import local_actor
from benchmarks.processes import own_home
from benchmarks.rate import TICK_S
from benchmarks.table import Row, show
from host.settings import ENVIRONMENT_PREFIX, Settings, load_settings
from jobs.engines.models import check_model
from jobs.fleet.worker_registry import list_workers
from jobs.queue import job, submit
from jobs.table import FINISHED
from lab.errors import EngineError
from lab.metrics.latency import tpot_ms
from lab.study import Arm, Load, Server, Study, Workload
from services.verifying.pace import beside_steady_server
from services.verifying.rival import TARGET
from warehouse.app_db.engine import open_engine
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.migrate import migrate
from workers.slots import take_slot
from workers.worker import Worker

SLOTS, BLOCKS = 3, 6
LOAD, WORKLOAD = Load(max_concurrency=2, num_prompts=8), Workload(output_tokens=64)
_READY_S, _POLL_EVERY_S = 600.0, 0.05


@dataclass(frozen=True)
class Shared:
    """The result of a study measured by the slots of a host together."""

    wall_s: float  # from its submission to its end
    slots: frozenset[object]  # that measured part of it
    window_s: float  # median of its runs
    tpot_ms: float  # median of its runs' medians


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if the models are missing."""
    check_model(settings.models_dir, TARGET)
    measure(settings, repeats)


def measure(
    settings: Settings,
    repeats: int,
    *,
    slots: int = SLOTS,
    blocks: int = BLOCKS,
    load: Load = LOAD,
    workload: Workload = WORKLOAD,
) -> None:
    """Measure a study of this many blocks on one slot and on several, alternating, and print."""

    def all_pairs(base_url: str) -> tuple[list[Shared], list[Shared]]:
        study = _study(base_url, blocks, load, workload)
        pairs = []
        for repeat in range(repeats):
            print(f"slots: repeat {repeat + 1} of {repeats}", file=sys.stderr)
            one, several = _measured(settings, study, 1), _measured(settings, study, slots)
            if len(several.slots) < min(slots, blocks):
                raise EngineError(f"only slots {sorted(map(str, several.slots))} of {slots} measured something")
            pairs.append((several, one))
        return [several for several, _ in pairs], [one for _, one in pairs]

    (several, one), _ = beside_steady_server(all_pairs, TICK_S)
    rows = [
        Row.of("wall s", "wall_s", several, one, "0.45 at most"),
        Row.of("a run's window s", "window_s", several, one, "1"),
        Row.of("a run's TPOT ms", "tpot_ms", several, one, "1"),
    ]
    show(f"Slots: {blocks} blocks of 2 arms on {slots} slots", "one slot", rows)


def _study(base_url: str, blocks: int, load: Load, workload: Workload) -> Study:
    server = Server(base_url=base_url, served_model="steady")
    arms = tuple(Arm(name=name, engine="endpoint", server=server, baseline=name == "a") for name in ("a", "b"))
    return Study(
        name="slots",
        target=TARGET,
        arms=arms,
        workloads=(workload,),
        loads=(load,),
        repeats=blocks,
        alone=False,
        spread=True,
    )


def _measured(settings: Settings, study: Study, slots: int) -> Shared:
    """Measure the study in a home of its own. Raises EngineError unless every run was measured."""
    with own_home(settings) as own:
        migrate(own)
        with open_engine(own.app_database_url) as database:
            with _workers(own, slots, database):
                began_s = time.perf_counter()
                job_id = submit(own, study, actor=local_actor())
                while job(database, job_id).state not in FINISHED:
                    time.sleep(_POLL_EVERY_S)
                wall_s = time.perf_counter() - began_s
            done = job(database, job_id)
        bundles = [read_bundle(folder) for folder in find_bundles(own.bundles)]
    if done.state != "done" or done.error or len(bundles) != len(study.arms) * study.repeats:
        raise EngineError(f"the study of part slots ended as {done.state} with {len(bundles)} runs: {done.error}")
    return Shared(
        wall_s,
        frozenset(bundle.run.circumstances.settings["slot"] for bundle in bundles),
        statistics.median(bundle.run.duration_s or 0.0 for bundle in bundles),
        statistics.median(float(np.nanmedian(tpot_ms(bundle.requests))) for bundle in bundles),
    )


@contextmanager
def _workers(settings: Settings, slots: int, database: sa.Engine) -> Iterator[None]:
    """Run a worker for each slot. Where there are fewer processors than slots, they share all of them."""
    started: list[subprocess.Popen[bytes]] = []
    (no_engines := settings.home / "engines.toml").touch()  # nothing for the workers to examine
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    ours = {"HOME": settings.home.absolute(), "ENGINES_FILE": no_engines.absolute(), "SLOTS": slots}
    variables |= {f"{ENVIRONMENT_PREFIX}{name}": str(value) for name, value in ours.items()}
    try:
        for slot in range(1, slots + 1):
            mine = variables | {f"{ENVIRONMENT_PREFIX}SLOT": str(slot)}
            started.append(subprocess.Popen((sys.executable, "-m", "benchmarks.slots"), env=mine))
        _await_workers(started, database)
        yield
    finally:
        for worker in started:
            worker.kill()
            worker.wait()


def _await_workers(started: Sequence[subprocess.Popen[bytes]], database: sa.Engine) -> None:
    until_s = time.monotonic() + _READY_S
    while len(list_workers(database)) < len(started):
        if time.monotonic() > until_s or any(worker.poll() is not None for worker in started):
            raise EngineError("a worker of part slots did not start")
        time.sleep(_POLL_EVERY_S)


def be_worker() -> None:
    """Run the worker of one slot, without Celery, in a process of its own. The variables name the slot."""
    settings = load_settings()
    if (os.cpu_count() or 1) >= settings.slots:
        take_slot(settings)
    worker = Worker(settings)
    worker.start()
    worker.join()


if __name__ == "__main__":
    be_worker()
