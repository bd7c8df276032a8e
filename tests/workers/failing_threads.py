"""Programs in which a thread fails without which no worker must go on. Otherwise they would run for ever.

The arguments are `heartbeat` or `polls`, and a job's id.
"""

from __future__ import annotations

import asyncio
import sys
from unittest import mock

from host.settings import load_settings
from jobs import queue
from warehouse.app_db.engine import app_engine
from workers import worker
from workers.heartbeat import Heartbeat


def heartbeat(job_id: str) -> None:
    database = app_engine(load_settings().app_database_url)
    with Heartbeat(database, queue.job(database, job_id), "me", 600.0) as beating:
        beating.watch(lambda: 1 / 0)  # type: ignore[arg-type, return-value]  # on purpose
        beating.run(asyncio.sleep(600))


def polls(_job_id: str) -> None:
    with mock.patch.object(worker, "requeue_expired", side_effect=ZeroDivisionError):
        it = worker.Worker(load_settings())
        it.start()
        it.join()


if __name__ == "__main__":
    {"heartbeat": heartbeat, "polls": polls}[sys.argv[1]](sys.argv[2])
