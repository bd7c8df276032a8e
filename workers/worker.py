"""A worker process: runs queued jobs, one at a time. It polls the job table for them, and starts at once when woken.

Celery carries one message without content. Everything else is in the job table, so a message only saves the wait for
the next poll: without the broker, jobs start two seconds later.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from host import quiet
from host.os_errors import is_of_host
from host.settings import Settings
from jobs.engines.capabilities import all_capabilities
from jobs.engines.hardware import all_gpus, gpus_now, hardware_name, nvidia_gpus
from jobs.engines.kinds import KINDS
from jobs.engines.profiles import Profile, installed_profiles
from jobs.fleet import hosts
from jobs.fleet.blocks import UnlikeHost, shared_jobs
from jobs.fleet.broker import queue_of
from jobs.fleet.leases import LeaseLost, another_waits, claim, finish, requeue_expired
from jobs.fleet.needs import unmet
from jobs.fleet.worker_registry import (
    PRESENCE_EVERY_S,
    asked_to_drain,
    has_hardware,
    record,
    record_presence,
    register_worker,
    store_engines,
)
from jobs.table import Job
from lab.errors import RevisionError, SettingsError, UserError
from warehouse.app_db import worker_rights
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, database_words, refuse_newer_database
from warehouse.bundles.store import StoreAway
from warehouse.bundles.uploads import prepare, uploading
from workers.engine_runtime.engine_user import engine_user
from workers.engine_runtime.kept import KeptEngines, remove_left_logs
from workers.engine_runtime.process import end_leftovers, is_alive
from workers.heartbeat import Heartbeat, WorkerStops, vital_thread
from workers.job_runner import give_back, help_job, run_job
from workers.probes.occupied import used_by_others
from workers.run_recorder import announced_as, refuse_to_store
from workers.shared_blocks import SharedBlocks
from workers.slots import taken_slot

logger = logging.getLogger(__name__)
#: The variable of a worker's process that says when it ends by itself.
ENDS = "ENDS_OF_DRAFTHOUSE_WORKER"
_POLL_EVERY_S = 2.0
#: To the database: heartbeats, polls and uploads take milliseconds each, and wait for each other.
_CONNECTIONS = (1, 0)
#: Pause after this host had to put a job back; after it, a job is taken only once the host seems able.
_REST_S = 60.0
#: For this long that job comes after all others.
_PASSED_OVER_S = 600.0
#: Grace of engines that it keeps when it ends.
_LAST_GRACE_S = 0.5
#: Pauses before a job is taken again whose runs other hosts have yet to upload, or measured with something else.
_LATE_AGAIN_AFTER_S, _UNLIKE_AGAIN_AFTER_S = 30.0, 600.0


@dataclass(frozen=True)
class Ends:
    """When a worker ends by itself: after one study or without any to take, or after the block of this moment."""

    once: bool = False
    until: datetime | None = None

    @property
    def words(self) -> str:
        """Return it as a text for the environment of a worker's process."""
        return "once" if self.once else "" if self.until is None else self.until.isoformat()

    @classmethod
    def read(cls, words: str) -> Ends:
        return cls(words == "once", None if words in ("", "once") else datetime.fromisoformat(words))


class Worker:
    """One worker process: works on one job at a time, and polls the job table in threads of its own."""

    def __init__(
        self, settings: Settings, ends: Ends | None = None, on_queue: Callable[[str], None] = lambda _queue: None
    ) -> None:
        """Make the worker. `on_queue` is called with the broker's queue for hosts like this, which its engines name."""
        refuse_keys_of_another(settings)
        self._settings, self._ends, self._on_queue = settings, ends or Ends(), on_queue
        self._database = app_engine(settings.app_database_url, connections=_CONNECTIONS, gives_way=True)
        engine_user(settings)  # raises SettingsError before any job is taken
        prepare(settings)
        self._name, self._hardware = worker_name(), hardware_name()
        #: What is set aside if jobs have to be put back: this slot, whose GPUs other slots do not share, or the host.
        self._place = hosts.place(platform.node(), settings.slot if settings.slots > 1 else None)
        self._kept = KeptEngines(settings)
        self._keeps: str | None = None  # what was recorded of them
        self._heartbeat: Heartbeat | None = None
        self._job_id: str | None = None
        self._busy = threading.Lock()  # held while a job is measured, and while the engines are examined
        self._knows_engines = False
        self._profiles: dict[str, Profile] = {}  # of the engines that can be started here, by name
        self._engines: dict[str, str | None] = {}  # their versions, as far as they are known
        self._waits_for: str | None = None  # the reason why it cannot start engines or take any job
        self._fault: str | None = None  # of this host, because of which a job was put back
        self._rests_until_s = 0.0  # after that, time.monotonic
        self._put_back: dict[str, float] = {}  # jobs with which this host had a fault, until when they come last
        self._late: dict[str, float] = {}  # jobs that this host cannot go on with now, until when they are not taken
        self._present_s = 0.0  # when that was last recorded, time.monotonic
        self._is_first = False  # of the present workers, then: it puts lost jobs back at every poll, others more rarely
        self._set_aside: set[str] = set()  # ids of queued jobs that this worker cannot read
        self._not_helped: set[tuple[str, int]] = set()  # jobs and attempts in which this worker failed to help
        self._given_back = set[str]()  # the job that was given back for another one
        self._last_shared: SharedBlocks | None = None  # the job it helped with last
        self._stopping, self._draining = threading.Event(), threading.Event()
        self._woken, self._look = threading.Event(), threading.Event()  # to end the waiting of the two threads
        self._uploads = contextlib.ExitStack()
        self._polls = vital_thread("polls of the queue", self._poll)
        self._jobs = vital_thread("jobs", self._work_until_stopped)

    def start(self) -> None:
        """Clear up after dead workers, register this one, then poll for jobs and run them until `stop`."""
        end_leftovers(self._settings.home / "engines")
        remove_left_logs(self._settings)
        register_worker(
            self._database,
            self._name,
            host=platform.node(),
            hardware=self._hardware,
            gpus=len(nvidia_gpus()),
            is_dead=is_dead,
            slot=None if self._settings.slots == 1 or (slot := taken_slot()) is None else str(slot),
        )
        self._uploads.enter_context(uploading(self._settings, self._database))
        self._polls.start()
        self._jobs.start()

    def join(self) -> None:
        """Wait until the worker has ended, after `stop` or `drain` or by itself, and for uploads, but not for long."""
        self._jobs.join()
        self._uploads.close()

    def drain(self) -> None:
        """Finish the current block, give the job back, take no other one, and end. For signal handlers, too."""
        if not self._draining.is_set():
            logger.info("this worker drains: it ends after the block that it measures")
        self._draining.set()
        self._woken.set()

    def look(self, workers: Collection[str]) -> None:
        """If it is one of these: look at once for jobs, for a cancelled one, and whether to drain."""
        if self._name in workers:
            self._look.set()
            self.wake()

    def end_engines(self) -> None:
        """End the engines that it keeps for the next study."""
        with self._busy:
            self._kept.end(_LAST_GRACE_S)

    def wake(self) -> None:
        """Look for jobs at once, and whether the present one was cancelled."""
        self._woken.set()
        if (heartbeat := self._heartbeat) is not None:
            heartbeat.beat_now()

    def stop(self) -> None:
        """Give the current job back, stop its engine, and take no other job. May be called from a signal handler."""
        self._stopping.set()
        self._woken.set()
        self._look.set()
        if (heartbeat := self._heartbeat) is not None:
            heartbeat.stop(WorkerStops("this worker is shutting down"))

    def work(self) -> None:
        """Run every queued job, one after the other. May be called from several threads: one of them works."""
        knew_engines = self._knows_engines
        while not self._stopping.is_set() and not self._draining.is_set():
            with self._busy:
                self._kept.end_if_over()  # while the database is away, too
                why_none = self._why_no_jobs()
                self._record_waiting(self._why_no_engines() if why_none is None else why_none)
                self._end_kept()
                job = self._claim() if why_none is None else None
                if job is not None:
                    self._measure_or_fail(job)
                elif self._ends.once or why_none is not None or not self._help():
                    break
            if self._ends.once:
                self.drain()
        if self._ends.once and knew_engines:  # else it could not take a study that began with a version
            self.drain()

    def _why_no_jobs(self) -> str | None:
        """Find out which engines can be started here now. Return the reason why this worker cannot take any job."""
        try:
            refuse_newer_database(self._database)
            profiles = installed_profiles(self._settings)
        except UserError as error:  # of another revision, or engines.toml cannot be read
            return str(error)
        if profiles != self._profiles:
            self._profiles, self._engines, self._knows_engines = profiles, dict.fromkeys(profiles), False
            record(self._database, self._name, queue=(queue := queue_of(self._hardware, profiles)))
            self._on_queue(queue)
        if (aside := hosts.set_aside_host(self._database, self._place)) is not None:
            if not aside.is_due:
                return aside.sentence
            self._fault = self._lacks()
            hosts.try_again(self._database, self._place, self._fault)
        elif self._fault is not None and time.monotonic() > self._rests_until_s:
            self._fault = self._lacks()
        return self._fault

    def _lacks(self) -> str | None:
        """Try what this host can try itself: whether it can store a run, and whether its GPUs answer."""
        try:
            refuse_to_store(self._settings)
            if (listed := len(gpus_now())) < len(all_gpus()):
                return f"the driver lists {listed} of {len(all_gpus())} GPUs"
        except UserError as why:
            return str(why)
        return None

    def _why_no_engines(self) -> str | None:
        """Say whether another program computes on this worker's GPUs."""
        return None if self._settings.share_gpus else used_by_others(taken_slot(), self._settings.home / "engines")

    def _record_waiting(self, waits_for: str | None) -> None:
        if waits_for != self._waits_for:
            logger.warning("this worker waits: %s", waits_for) if waits_for else logger.info("it no longer waits")
            record(self._database, self._name, waits_for=waits_for)
            self._waits_for = waits_for

    def _end_kept(self) -> None:
        """End the engines of the last study if this worker waits, perhaps for its GPUs; record what is kept."""
        if self._waits_for is not None:
            self._kept.end()
        if (keeps := self._kept.words) != self._keeps:
            record(self._database, self._name, keeps=keeps)
            self._keeps = keeps

    def _claim(self) -> Job | None:
        """Take the next job. A job that was given back comes last, after anything else that waits."""
        now_s = time.monotonic()
        self._put_back = {job_id: until_s for job_id, until_s in self._put_back.items() if until_s > now_s}
        self._late = {job_id: until_s for job_id, until_s in self._late.items() if until_s > now_s}
        given_back, self._given_back = self._given_back | self._put_back.keys(), set()
        for passed_over in [given_back, set()] if given_back else [set()]:
            job = claim(
                self._database,
                self._name,
                self._settings.lease_s,
                self._hardware,
                self._set_aside,
                has_gpus=bool(nvidia_gpus()),
                starts_engines=self._waits_for is None,
                except_jobs=passed_over | self._late.keys(),
                engines=self._engines if self._waits_for is None else self._running_servers(),
            )
            if job is not None:
                return job
        return None

    def _running_servers(self) -> dict[str, str | None]:
        """Return the engines that this worker does not start."""
        return {name: self._engines[name] for name, of in self._profiles.items() if not KINDS[of.kind].is_started}

    def _needed_for(self, job: Job) -> str | None:
        """Return why this slot is needed for something else after a block of a spread job, or None."""
        if self._draining.is_set():
            return "drains"
        self._record_waiting(self._why_no_engines())
        if self._waits_for and job.study.starts_engines:
            return f"waits: {self._waits_for}"
        has_gpus = bool(nvidia_gpus())
        set_aside, engines = self._set_aside, self._engines
        if not another_waits(self._database, job, self._hardware, set_aside, has_gpus=has_gpus, engines=engines):
            return None
        self._given_back.add(job.job_id)
        return "makes room for another study"

    def _help(self) -> bool:
        """Measure a block of a job that another worker shares, of this host or of one like it. Return False if there is
        none.
        """
        for job in shared_jobs(self._database, self._name):
            if (job.job_id, job.attempt) in self._not_helped or (job.study.starts_engines and self._waits_for):
                continue
            if not all(arm.engine in self._profiles for arm in job.study.arms):
                continue
            if not has_hardware(self._hardware, job.study.hardware) or unmet(job.needs, self._engines):
                continue  # it was claimed elsewhere, on hosts that are unlike in what is known without reading weights
            try:
                if self._help_with(job):
                    return True
            except DATABASE_ERRORS:
                raise
            except WorkerStops:
                return False
            except UnlikeHost as unlike:
                logger.info("job %s is not helped: %s", job.job_id, unlike)
                self._not_helped.add((job.job_id, job.attempt))
            except Exception:
                logger.exception("job %s cannot be helped", job.job_id)
                self._not_helped.add((job.job_id, job.attempt))
        return False

    def _help_with(self, job: Job) -> bool:
        """Measure a block if one is free. The bundles read for the last such job are cached."""
        shared = self._last_shared
        if shared is None or (shared.job.job_id, shared.job.attempt) != (job.job_id, job.attempt):
            shared = SharedBlocks(
                self._settings, self._database, job, self._name, is_dead=is_dead, check=self._refuse_when_stopping
            )
            self._last_shared = shared
        block = shared.claim(shared.view())
        if block is None:
            return False
        logger.info("job %s: helping with block %d", job.job_id, block.number + 1)
        with self._holding(job, helps=True) as heartbeat:
            if not help_job(self._settings, job, heartbeat, kept=self._kept, block=block):
                self._not_helped.add((job.job_id, job.attempt))
        return True

    def _refuse_when_stopping(self) -> None:
        """Raise WorkerStops if this worker is to end before it begins something: weights are read for minutes."""
        if self._stopping.is_set() or self._draining.is_set():
            raise WorkerStops("this worker is shutting down")

    @contextlib.contextmanager
    def _holding(self, job: Job, *, helps: bool = False) -> Iterator[Heartbeat]:
        """Announce the job on this machine and renew its lease. `stop` ends it."""
        self._job_id = job.job_id
        try:
            with (
                quiet.announced_if_possible(self._settings.home, "job", announced_as(self._settings.slot, job)),
                Heartbeat(self._database, job, self._name, self._settings.lease_s, helps=helps) as heartbeat,
            ):
                self._heartbeat = heartbeat
                if self._stopping.is_set():
                    self.stop()
                yield heartbeat
        finally:
            self._heartbeat = self._job_id = None

    def _measure_or_fail(self, job: Job) -> None:
        """Measure the job. An unexpected error ends this job, not the jobs after it."""
        try:
            self._measure(job)
        except DATABASE_ERRORS:
            raise
        except Exception as bug:
            if is_of_host(bug) or (isinstance(bug, UserError) and bug.is_of_host):
                logger.exception("job %s is put back into the queue", job.job_id)
                with contextlib.suppress(LeaseLost):
                    give_back(self._settings, self._database, job, self._name, f"cannot measure it: {bug}")
                self._count(job, bug)
                return
            logger.exception("job %s failed", job.job_id)
            error = f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log"
            with contextlib.suppress(LeaseLost):
                finish(self._database, job.job_id, self._name, "failed", error=error)

    def _measure(self, job: Job) -> None:
        logger.info("job %s (%s) claimed", job.job_id, job.name)
        with self._holding(job) as heartbeat:
            end_leftovers(self._settings.home / "engines")
            why_back = run_job(
                self._settings,
                job,
                heartbeat,
                kept=self._kept,
                is_dead=is_dead,
                needed_for=self._needed_for,
                drains=self._draining.is_set,
            )
            self._count(job, why_back)
        logger.info("no longer working on job %s", job.job_id)

    def _count(self, job: Job, why_back: Exception | None) -> None:
        """Count a job that has ended here or, with the fault of this host, was put back."""
        if isinstance(why_back, (StoreAway, UnlikeHost)):  # says nothing about this host: it can measure other studies
            pause_s = _LATE_AGAIN_AFTER_S if isinstance(why_back, StoreAway) else _UNLIKE_AGAIN_AFTER_S
            self._late[job.job_id] = time.monotonic() + pause_s
            return
        self._fault = None if why_back is None else str(why_back)
        if self._fault is None:
            hosts.record_success(self._database, self._place)
            return
        self._rests_until_s = time.monotonic() + _REST_S
        self._put_back[job.job_id] = time.monotonic() + _PASSED_OVER_S
        hosts.record_failure(self._database, self._place, self._fault)

    def _work_until_stopped(self) -> None:
        while not self._stopping.is_set() and not self._draining.is_set():
            self._woken.wait(_POLL_EVERY_S)
            self._woken.clear()
            with contextlib.suppress(*DATABASE_ERRORS):  # the other thread logs that
                self.work()
        self._stopping.set()
        self.end_engines()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._look.wait(_POLL_EVERY_S)
            self._look.clear()
            try:
                self._drain_if_asked()
                now_s = time.monotonic()
                if is_due := now_s - self._present_s >= PRESENCE_EVERY_S:
                    self._is_first = record_presence(self._database, self._name, self._job_id)
                    self._present_s = now_s
                refuse_newer_database(self._database)
                if is_due or self._is_first:
                    for job_id in requeue_expired(self._database, is_dead):
                        logger.warning("job %s: its worker died; it was queued again", job_id)
                self._store_engines_when_idle()
            except RevisionError:  # the other thread logs and records that
                continue
            except DATABASE_ERRORS as error:
                logger.warning("the job table does not answer, trying again: %s", database_words(error))

    def _drain_if_asked(self) -> None:
        """Drain at the end of this worker's time, or if somebody asked its row to."""
        until = self._ends.until
        if (until is not None and datetime.now(UTC) >= until) or asked_to_drain(self._database, self._name):
            self.drain()

    def _store_engines_when_idle(self) -> None:
        """Examine the engines, which takes seconds of a processor the first time: never beside a job."""
        if self._knows_engines or not self._busy.acquire(blocking=False):
            return
        try:
            known = all_capabilities(self._settings)
            store_engines(self._database, self._name, known)
            self._engines |= {engine.engine: engine.version for engine in known if engine.engine in self._engines}
        except UserError as error:
            logger.warning("the capabilities of this host's engines are unknown: %s", error)
        except (OSError, ValueError, LookupError):  # jobs are taken whatever an engine answers
            logger.exception("the capabilities of this host's engines are unknown")
        finally:
            self._busy.release()
        self._knows_engines = True


def refuse_keys_of_another(settings: Settings) -> None:
    """Raise SettingsError if the database's role was enrolled for another host: it would be refused at each step."""
    host = worker_rights.host_of(settings.app_database_url)
    if host is not None and host != platform.node():
        raise SettingsError(
            f"these are the keys of {host}, and this host is {platform.node()}: run `drafthouse worker enroll "
            f"{platform.node()}` on the page's host, or give a container the name"
        )


def worker_name() -> str:
    """Return `host/pid/namespace/start` of this process: unique, and enough for workers of the host to see if it is
    dead.
    """
    return f"{platform.node()}/{os.getpid()}/{_pid_namespace()}/{psutil.Process().create_time():.2f}"


def is_dead(worker: str) -> bool:
    """Return whether this worker is known to be dead; never for a worker elsewhere (in another container, say)."""
    parts = worker.split("/")
    if len(parts) != 4 or parts[0] != platform.node() or parts[2] != _pid_namespace():
        return False
    return not is_alive(int(parts[1]), float(parts[3]))


def _pid_namespace() -> str:
    """Identify the scope of process numbers: this boot of this machine, and this container on it."""
    texts = [platform.node()]
    if (boot := Path("/proc/sys/kernel/random/boot_id")).exists():
        texts += [boot.read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
