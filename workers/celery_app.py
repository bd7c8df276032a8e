"""The Celery app: `python -m workers.celery_app` is a worker.

One process runs one job at a time. Messages are acknowledged early and results are not stored: the job table is
authoritative.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from typing import Any

from celery import Celery, signals

from host.private_files import write_for_nobody_else
from host.process_memory import do_without_pandas, limit_memory
from host.settings import load_settings
from jobs import open_files
from jobs.broker import WAKE_TASK, broker_url
from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS
from workers.slots import take_slot
from workers.worker import Worker

#: Longer than any job: Valkey redelivers a message that is unacknowledged for longer.
_VISIBILITY_TIMEOUT_S = 30 * 24 * 3600

write_for_nobody_else()
_settings = load_settings()
_workers: list[Worker] = []

app = Celery("drafthouse", broker=broker_url(_settings))
app.conf.update(
    worker_pool="solo",
    worker_concurrency=1,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,  # access to the broker must not allow commands to the worker
    task_acks_late=False,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # retry for ever
    broker_transport_options={
        "visibility_timeout": _VISIBILITY_TIMEOUT_S,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
    },
)


@app.task(name=WAKE_TASK)  # type: ignore[untyped-decorator] # celery has no types
def wake() -> None:
    """Run all queued jobs. Celery's own loop is blocked meanwhile, so it does not disturb a measurement."""
    for worker in _workers:
        with contextlib.suppress(*DATABASE_ERRORS):  # the worker's own polls log that
            worker.work()


@signals.worker_init.connect  # type: ignore[untyped-decorator] # celery has no types
def _start(**_: Any) -> None:
    """Runs before Celery connects to the broker: leftovers are removed even while the broker cannot be reached."""
    open_files.raise_limit()
    do_without_pandas()
    limit_memory(_settings.worker_memory_mib, measures=True)
    try:
        if (slot := take_slot(_settings)) is not None:
            logging.getLogger(__name__).info("this worker has slot %s", slot)
        worker = Worker(_settings)
        worker.start()
    except UserError as error:
        raise SystemExit(str(error)) from None
    except Exception:  # noqa: BLE001 - Celery would log it and go on without a worker
        traceback.print_exc()
        raise SystemExit("the worker could not start: see the traceback above") from None
    _workers.append(worker)


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator] # celery has no types
def _stop(**_: Any) -> None:
    for worker in _workers:
        worker.stop()


@signals.worker_shutdown.connect  # type: ignore[untyped-decorator] # celery has no types
def _finish(**_: Any) -> None:
    for worker in _workers:
        worker.join()


if __name__ == "__main__":
    # not `celery -A`, which looks for our rooms in the working directory first; no messages between workers
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    app.worker_main(["worker", "--pool", "solo", "-l", "INFO", *quiet])
