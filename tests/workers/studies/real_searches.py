"""Searches for the capacity of real server processes, which work on a known number of requests at a time.

Each search has a server of its own. The schedule asks and the load driver sends as for a worker; there are no bundles.
Trials whose client did not keep up are invalid, as by the checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from lab.capacity.result import Capacity
from lab.metrics import slo
from lab.metrics.request_table import RequestTable
from lab.schedule import Outcome, Step, schedule_of
from lab.study import Study
from lab.study.plan import PlannedRun
from lab.validity.checks.client import LAG_INVALID_MS
from tests.lab.capacity.queues import Queue
from tests.lab.capacity.searches import capacity_of, searching
from tests.workers.homes import REPOSITORY, STAND_IN
from tests.workers.load.builders import params, prompts
from workers.load.client import Endpoint, RequestParams
from workers.load.connections import Connections
from workers.load.driver import drive

#: Answers of two tokens. The bound allows a wait that is long beside what a busy machine adds to it.
TOKENS = 2
#: Begins the line in which the server says its port.
LISTENING = "listening on port "


@dataclass(frozen=True)
class Found:
    """The truth and the bracket of a search."""

    truth: float
    capacity: Capacity
    trials: int


async def search(queue: Queue, seed: int, repeats: int = 1) -> Found:
    """Start a server like `queue` and search for its capacity."""
    study = searching(queue, repeats, find_from=queue.capacity / 3)
    study = study.model_copy(update={"seed": seed, "slo": study.slo.model_copy(update={"ttft_ms": _bound_ms(queue)})})
    outcomes: list[Outcome] = []
    with _server(queue) as base_url:
        schedule = schedule_of(study)
        while isinstance(step := await asyncio.to_thread(schedule.next, outcomes), Step):
            outcomes += [await _measured(base_url, study, run) for run in step.launch.runs]
    return Found(queue.capacity, capacity_of(outcomes, study), len(outcomes))


def _bound_ms(queue: Queue) -> float:
    """Time to first token at the longest wait that `queue` allows."""
    return 1000 * (queue.bound_s + queue.service_s / TOKENS)


async def _measured(base_url: str, study: Study, run: PlannedRun) -> Outcome:
    if run.trial is None:
        raise ValueError("only trials are measured here")
    target = Endpoint(base_url, "model")
    ask = RequestParams(params().sampling, TOKENS, ignore_eos=True, timeout_s=600.0)
    async with Connections() as connections:
        done = await drive(
            connections,
            target,
            prompts(run.load.num_prompts),
            load=run.load,
            params=ask,
            seed=run.trial.arrivals_seed,
            trial=(study.slo, run.trial.search.slo_share),
        )
    completed = RequestTable.of(done.requests).completed
    within = slo.requests_within(completed, study.slo, from_intended=True)
    counts = {"completed": len(completed), "failed": len(done.requests) - len(completed)}
    counts["within_slo"] = 0 if within is None else int(within.sum())
    kept_up = done.client.loop_lag_p99_ms <= LAG_INVALID_MS
    return Outcome(run, 0, is_valid=kept_up, metrics={f"requests_{name}": count for name, count in counts.items()})


@contextlib.contextmanager
def _server(queue: Queue) -> Iterator[str]:
    """A server that listens when this returns, on a port that the system chose for it."""
    command = [sys.executable, "-m", STAND_IN, "model", "--host", "127.0.0.1", "--port", "0"]
    command += ["--slots", str(queue.slots), "--token-s", str(queue.service_s / TOKENS)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(LISTENING):
                    yield f"http://127.0.0.1:{int(line.removeprefix(LISTENING))}"
                    break
            else:
                raise RuntimeError(f"the server ended with {process.wait()} before it listened")
        finally:
            process.kill()
