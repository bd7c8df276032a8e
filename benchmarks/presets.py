"""Part presets: the reference version of every preset, measured for real on this machine.

There is no rival; the time is compared with the plan's estimate. Aim: every run completes, in 0.5 to 2 times the
estimate.
"""

from __future__ import annotations

import sys
import time

from access.local import local_actor
from benchmarks.processes import own_home
from benchmarks.table import Row, show
from host.settings import Settings
from jobs.presets import load_preset, preset_names
from jobs.queue import job, submit
from lab.errors import EngineError
from lab.estimate import History, estimate
from lab.study import Study
from lab.study.plan import plan
from warehouse.app_db.engine import app_engine
from warehouse.migrate import migrate
from workers.worker import Worker


def run(settings: Settings, _repeats: int) -> None:
    """Measure and print. Raises UserError or EngineError if a preset could not be measured."""
    rows = [measured(settings, name) for name in preset_names()]
    show("Presets, scaled down to the reference pair: seconds", "as planned", rows)


def measured(settings: Settings, name: str) -> Row:
    """Measure one preset in a home of its own. Raises EngineError unless all its runs completed."""
    study = load_preset(name, reference=True)
    print(f"presets: {study.name}", file=sys.stderr, flush=True)
    with own_home(settings) as own:
        migrate(own)
        took_s = measure(own, study)
    planned_s = estimate(plan(study), History()).seconds
    return Row(name, [took_s], [planned_s], "0.5 .. 2")


def measure(settings: Settings, study: Study) -> float:
    """The seconds that a study takes in a home. Raises EngineError unless every one of its runs completed."""
    start_s = time.perf_counter()
    job_id = submit(settings, study, actor=local_actor())
    Worker(settings).work()
    wall_s = time.perf_counter() - start_s
    engine = app_engine(settings.app_database_url)
    done = job(engine, job_id)
    engine.dispose()
    if done.state != "done" or done.error:
        raise EngineError(f"{study.name} ended as {done.state}: {done.error}")
    return wall_s
