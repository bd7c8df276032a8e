"""The Celery app: `python -m workers.celery_app` is a worker.

One process runs one job at a time, in threads of its own: Celery's loop only hears that there may be work
(`jobs.fleet.broker`), answers its remote control, and reports to its events. Messages are acknowledged early and
results are not stored: the tables are authoritative.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import traceback
from typing import Any

from celery import Celery, signals
from celery.worker.control import Panel, control_command
from kombu.exceptions import OperationalError
from kombu.transport.redis import QoS

from host.private_files import write_for_nobody_else
from host.process_memory import do_without_pandas, limit_memory
from host.settings import load_settings
from jobs import open_files
from jobs.engines.hardware import hardware_name
from jobs.engines.profiles import installed_profiles
from jobs.fleet.broker import LOOK_COMMAND, WAKE_TASK, broker_url, queue_of
from lab.errors import UserError
from workers.heartbeat import vital_thread
from workers.slots import take_slot
from workers.worker import ENDS, Ends, Worker

#: Longer than any job: Valkey redelivers a message that is unacknowledged for longer.
_VISIBILITY_TIMEOUT_S = 30 * 24 * 3600

write_for_nobody_else()
try:
    _settings = load_settings()
    _broker = broker_url(_settings)
except UserError as error:
    raise SystemExit(str(error)) from None
_workers: list[Worker] = []

app = Celery("drafthouse", broker=_broker)
app.conf.update(
    worker_pool="solo",
    worker_concurrency=1,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=True,
    control_queue_expires=None,  # renewed by a script, too
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


# kombu looks for messages to restore by a script in the broker, and a host with keys of its own may run none. Nothing
# is acknowledged late, so there is nothing to restore.
QoS.restore_visible = lambda *_arguments, **_options: None  # type: ignore[method-assign]


#: Commands of the remote control that only read, or that choose what is listened to. Access to the broker must not
#: allow others: what a worker does stands in the tables.
_ALLOWED = {
    *("ping", "hello", "clock", "stats", "active", "reserved", "scheduled", "registered", "active_queues"),
    *("dump_active", "dump_reserved", "dump_schedule", "dump_tasks", "enable_events", "disable_events", "heartbeat"),
    *("add_consumer", "cancel_consumer"),
}
for _name in set(Panel.data) - _ALLOWED:
    del Panel.data[_name]


@control_command(name=LOOK_COMMAND)  # type: ignore[untyped-decorator] # celery has no types
def look(_state: Any, workers: list[str]) -> None:
    """Look at the tables at once, if this worker is one of these."""
    for worker in _workers:
        worker.look(workers)


@app.task(name=WAKE_TASK)  # type: ignore[untyped-decorator] # celery has no types
def wake() -> None:
    """Look for queued jobs at once."""
    for worker in _workers:
        worker.wake()


class _Queue:
    """The queue that this process listens to, and the name by which Celery knows the process."""

    def __init__(self) -> None:
        self.node, self.name = "", ""

    def choose(self, name: str) -> None:
        """Listen to another queue: engines.toml has changed."""
        if name == self.name:
            return
        with contextlib.suppress(OperationalError):
            app.control.add_consumer(name, destination=[self.node])
            app.control.cancel_consumer(self.name, destination=[self.node])
            self.name = name


_queue = _Queue()


@signals.celeryd_init.connect  # type: ignore[untyped-decorator] # celery has no types
def _name_node(instance: Any, **_: Any) -> None:
    """Name the process as the fleet does: several run on a host with slots."""
    slot = f"slot{_settings.slot}-" if _settings.slots > 1 else ""
    instance.hostname = _queue.node = f"{slot}{os.getpid()}@{platform.node()}"


@signals.celeryd_after_setup.connect  # type: ignore[untyped-decorator] # celery has no types
def _listen(**_: Any) -> None:
    try:
        engines = installed_profiles(_settings)
    except UserError:  # the worker says so and waits
        engines = {}
    _queue.name = queue_of(hardware_name(), engines)
    app.amqp.queues.select([_queue.name])


@signals.worker_init.connect  # type: ignore[untyped-decorator] # celery has no types
def _start(**_: Any) -> None:
    """Runs before Celery connects to the broker: leftovers are removed even while the broker cannot be reached."""
    open_files.raise_limit()
    do_without_pandas()
    limit_memory(_settings.worker_memory_mib, measures=True)
    try:
        if (slot := take_slot(_settings)) is not None:
            logging.getLogger(__name__).info("this worker has slot %s", slot)
        worker = Worker(_settings, Ends.read(os.environ.get(ENDS, "")), _queue.choose)
        worker.start()
    except UserError as error:
        raise SystemExit(str(error)) from None
    except Exception:  # noqa: BLE001 - Celery would log it and go on without a worker
        traceback.print_exc()
        raise SystemExit("the worker could not start: see the traceback above") from None
    _workers.append(worker)
    vital_thread("end of the worker", lambda: _end_with(worker)).start()


def _end_with(worker: Worker) -> None:
    """End the process once the worker has ended by itself."""
    worker.join()
    os.kill(os.getpid(), signal.SIGTERM)


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator] # celery has no types
def _stop(sig: str, **_: Any) -> None:
    """Finish the block after TERM, as systemd, Slurm and Kubernetes send it; stop at once after INT and QUIT."""
    for worker in _workers:
        worker.drain() if sig == "SIGTERM" else worker.stop()


@signals.worker_shutdown.connect  # type: ignore[untyped-decorator] # celery has no types
def _finish(**_: Any) -> None:
    for worker in _workers:
        worker.join()


if __name__ == "__main__":
    # not by Celery's command, which imports the toolkit of a terminal, for a sixth of the worker's start; no messages
    # between workers, and events that say every ten seconds that this one is alive
    app.Worker(loglevel="INFO", without_gossip=True, without_mingle=True, heartbeat_interval=10).start()
