"""Processes that claim every job there is and finish it, printing the id of each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from host.settings import load_settings
from jobs.fleet.leases import claim, finish, heartbeat
from tests import processes
from warehouse.app_db.engine import app_engine

_PATIENCE_S, _LEASE_S = 600.0, 30.0


def claimed_by(count: int, environment: Mapping[str, str], folder: Path) -> list[str]:
    """Let so many of them work at once; gives what they have claimed."""
    printed = [folder / f"w{number}" for number in range(count)]
    workers = [
        processes.start("tests.jobs.greedy_worker", file.name, environment=environment, folder=folder, output=file)
        for file in printed
    ]
    assert [worker.wait(_PATIENCE_S) for worker in workers] == [0] * count, [file.read_text() for file in printed]
    return [line for file in printed for line in file.read_text().splitlines()]


def main(name: str) -> None:
    database = app_engine(load_settings().app_database_url)
    while job := claim(database, name, _LEASE_S):
        heartbeat(database, job.job_id, name, _LEASE_S, None)
        finish(database, job.job_id, name, "done")
        print(job.job_id)


if __name__ == "__main__":
    main(sys.argv[1])
