"""What a worker does when it is woken, and what it looks for by itself.

Celery carries one message without content. Everything else is in the job table, so a lost message costs seconds, and a
broker that is away costs nothing to a job that is running.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import threading
import time
from pathlib import Path

import psutil
import sqlalchemy as sa

from jobs.broker import wake
from jobs.engines.capabilities import all_capabilities
from jobs.engines.hardware import hardware_name, nvidia_gpus
from jobs.leases import claim, has_queued, requeue_expired
from jobs.table import Job
from jobs.worker_registry import PRESENCE_EVERY_S, record_presence, register_worker, store_engines
from lab.errors import UserError
from warehouse.app_db.engine import app_engine
from warehouse.settings import Settings
from workers.engine_runtime.process import end_leftovers, is_alive
from workers.heartbeat import Heartbeat, WorkerStops
from workers.job_runner import run_job

logger = logging.getLogger(__name__)
_LOOK_EVERY_S = 2.0


class Worker:
    """One worker process: works on one job at a time, and looks after the queue meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = app_engine(settings.app_database_url)
        self._name, self._hardware = worker_name(), hardware_name()
        self._heartbeat: Heartbeat | None = None
        self._job_id: str | None = None
        self._quiet = threading.Lock()  # held while a job is measured, and while the engines are asked
        self._has_learnt = False
        self._said_s = 0.0  # time.monotonic
        self._stopping = threading.Event()
        self._looking = threading.Thread(target=self._look, name="queue", daemon=True)
        self._broker_trouble: str | None = None

    def start(self) -> None:
        """Clear up after dead workers, say that this one is there, then look after the queue until `stop`."""
        end_leftovers(self._settings.home / "engines")
        register_worker(
            self._database,
            self._name,
            host=platform.node(),
            hardware=self._hardware,
            gpus=len(nvidia_gpus()),
            is_dead=is_dead,
        )
        self._looking.start()

    def stop(self) -> None:
        """Give the current job back, its engine stopped, and take no other; may be called from a signal handler."""
        self._stopping.set()
        if (heartbeat := self._heartbeat) is not None:
            heartbeat.stop(WorkerStops("this worker was told to stop"))

    def work(self) -> None:
        """Run every queued job, one after the other."""
        while not self._stopping.is_set():
            with self._quiet:
                job = claim(self._database, self._name, self._settings.lease_s, self._hardware)
                if job is None:
                    return
                self._measure(job)

    def _measure(self, job: Job) -> None:
        logger.info("job %s (%s) claimed", job.job_id, job.name)
        self._job_id = job.job_id
        end_leftovers(self._settings.home / "engines")
        with Heartbeat(self._database, job, self._name, self._settings.lease_s) as heartbeat:
            self._heartbeat = heartbeat
            if self._stopping.is_set():
                self.stop()
            run_job(self._settings, self._database, job, self._name, heartbeat)
            self._heartbeat = self._job_id = None
        logger.info("job %s left", job.job_id)

    def _look(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            try:
                for job_id in requeue_expired(self._database, is_dead):
                    logger.warning("job %s: its worker died, it is queued again", job_id)
                self._say_there()
                self._learn_when_quiet()
                if self._heartbeat is None and has_queued(self._database, self._hardware):
                    self._wake()
            except sa.exc.DBAPIError as error:
                logger.warning("the job table does not answer, trying again: %s", error.orig)

    def _say_there(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= PRESENCE_EVERY_S:
            record_presence(self._database, self._name, self._job_id)
            self._said_s = now_s

    def _learn_when_quiet(self) -> None:
        """Ask the engines what they can do, which takes seconds of a processor the first time: never beside a job."""
        if self._has_learnt or not self._quiet.acquire(blocking=False):
            return
        try:
            store_engines(self._database, self._name, all_capabilities(self._settings))
        except UserError as error:
            logger.warning("the engines of this host cannot be asked what they can do: %s", error)
        finally:
            self._quiet.release()
        self._has_learnt = True

    def _wake(self) -> None:
        """Said once when the broker goes, and once when it is back."""
        trouble = wake(self._settings)
        if trouble is not None and self._broker_trouble is None:
            logger.warning("the broker is away, trying again until it is back: %s", trouble)
        elif trouble is None and self._broker_trouble is not None:
            logger.info("the broker is back")
        self._broker_trouble = trouble


def worker_name() -> str:
    """`host/pid/place/start` of this process: never the same twice, and to be recognised as dead by its neighbours."""
    return f"{platform.node()}/{os.getpid()}/{_place()}/{psutil.Process().create_time():.2f}"


def is_dead(worker: str) -> bool:
    """Whether this worker is known to be dead. One that lives elsewhere (another container, say) never is."""
    parts = worker.split("/")
    if len(parts) != 4 or parts[0] != platform.node() or parts[2] != _place():
        return False
    return not is_alive(int(parts[1]), float(parts[3]))


def _place() -> str:
    """Where process numbers mean the same: this boot of this machine, and this container on it."""
    texts = [platform.node()]
    if (boot := Path("/proc/sys/kernel/random/boot_id")).exists():
        texts += [boot.read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
