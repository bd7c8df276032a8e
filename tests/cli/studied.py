"""A home with the published results of one small study, made once for all tests that only ask."""

from __future__ import annotations

import itertools
from pathlib import Path

from host.settings import Settings
from tests.cli.homes import Home, new_home
from tests.migrated import copy_migrated
from tests.warehouse.runs import cell
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all

#: Each arm's paces beside a healthy step's, one a repeat, and the rounds that its requests take.
ARMS: dict[str, tuple[tuple[float, ...], dict[str, int] | None]] = {
    "plain": ((1.0, 1.004, 0.998), None),
    "drafted": ((1.1, 1.107, 1.097), ROUNDS),
    "drafted well": ((1.1, 1.103, 1.099), {"code": 26, "prose": 30}),
    "same": ((1.001, 1.003, 0.999), None),
}
#: How much slower its steps are.
WORKLOADS, LOADS = {"mixed": 1.0, "other": 1.02}, {"c2": 1.0, "c4": 1.05}


def fill(folder: Path) -> Home:
    """Two workloads at two loads: both drafted arms are faster, and `same` is no different."""
    home = new_home(folder)
    settings = Settings(home=home.folder)
    copy_migrated(settings.home)
    for arm, (paces, rounds) in ARMS.items():
        for (workload, slower), (load, slower_still) in itertools.product(WORKLOADS.items(), LOADS.items()):
            for repeat, pace in enumerate(paces):
                spec = RunSpec(arm, repeat, pace * slower * slower_still, rounds, workload, load)
                ids = {"arm_id": arm, "workload_id": workload, "load_id": load}
                write(settings, spec, identity=cell(f"{arm}, {workload}, {load}", **ids))
    ingest_all(settings)
    return home
