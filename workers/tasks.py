"""What a worker does when it is woken, and what it looks for by itself.

Celery carries one message without content. Everything else is in the job table, so a lost message costs seconds, and a
broker that is away costs nothing to a job that is running.
"""

from __future__ import annotations

import logging
import threading

import sqlalchemy as sa

from warehouse.database import app_engine
from warehouse.settings import Settings
from workers.broker import wake
from workers.engines.process import end_leftovers
from workers.heart import Heart, WorkerStops
from workers.identity import is_dead, worker_name
from workers.leases import claim, has_queued, requeue_expired
from workers.study_run import run_job

logger = logging.getLogger(__name__)
_LOOK_EVERY_S = 2.0


class Worker:
    """One worker process: works on one job at a time, and looks after the queue meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = app_engine(settings)
        self._name = worker_name()
        self._heart: Heart | None = None
        self._stopping = threading.Event()
        self._looking = threading.Thread(target=self._look, name="queue", daemon=True)
        self._broker_trouble: str | None = None

    def start(self) -> None:
        """Clear up after dead workers, then look after the queue until `stop`."""
        end_leftovers(self._settings.home / "engines")
        self._looking.start()

    def stop(self) -> None:
        """Give the current job back, its engine stopped, and take no other; may be called from a signal handler."""
        self._stopping.set()
        if (heart := self._heart) is not None:
            heart.stop(WorkerStops("this worker was told to stop"))

    def work(self) -> None:
        """Run every queued job, one after the other."""
        while not self._stopping.is_set():
            job = claim(self._database, self._name, self._settings.lease_s)
            if job is None:
                return
            logger.info("job %s (%s) claimed", job.job_id, job.name)
            end_leftovers(self._settings.home / "engines")
            with Heart(self._database, job, self._name, self._settings.lease_s) as heart:
                self._heart = heart
                if self._stopping.is_set():
                    self.stop()
                run_job(self._settings, self._database, job, self._name, heart)
                self._heart = None
            logger.info("job %s left", job.job_id)

    def _look(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            try:
                for job_id in requeue_expired(self._database, is_dead):
                    logger.warning("job %s: its worker died, it is queued again", job_id)
                if self._heart is None and has_queued(self._database):
                    self._wake()
            except sa.exc.DBAPIError as error:
                logger.warning("the job table does not answer, trying again: %s", error.orig)

    def _wake(self) -> None:
        """Said once when the broker goes, and once when it is back."""
        trouble = wake(self._settings)
        if trouble is not None and self._broker_trouble is None:
            logger.warning("the broker is away, trying again until it is back: %s", trouble)
        elif trouble is None and self._broker_trouble is not None:
            logger.info("the broker is back")
        self._broker_trouble = trouble
