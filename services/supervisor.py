"""`drafthouse up`: start every service of a home, restart what dies, and stop all of them; and whether a home is up."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from access.web import oidc, start_token
from access.web.hosts import refuse_open_page, refuse_taken_port
from host.files import held
from host.settings import Settings
from lab.errors import UserError
from services import valkey
from services.process import Process
from warehouse.migrate import make_home, migrate
from workers.slots import slots_here

#: For a service that hangs; one that has ended is noticed at once, and a busy machine starts them late.
_READY_TIMEOUT_S = 600.0


class Services:
    """All services of one home. Call `supervise` a few times a second."""

    def __init__(self, processes: tuple[Process, ...]) -> None:
        self.processes = processes

    def start(self) -> None:
        """Start the first process, such as the broker that the others need, then the others together."""
        first, *others = self.processes
        first.start()
        _wait_ready(first)
        for process in others:
            process.start()
        for process in others:
            _wait_ready(process)

    def supervise(self) -> None:
        for process in self.processes:
            process.supervise()

    def drain(self) -> None:
        """Let workers finish what they measure; `have_ended` says when they have."""
        for process in self.processes:
            process.drain()

    def have_ended(self) -> bool:
        return all(process.has_ended for process in self.processes)

    def stop(self) -> None:
        """Stop the broker last, so that workers can still sign off."""
        for process in reversed(self.processes[1:]):
            process.terminate()
        for process in reversed(self.processes):
            process.terminate()
            process.wait_stopped()


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[Services]:
    """Run every service inside the block, and stop them however the block ends.

    Raises UserError if the home is in use, the port is taken, or a service does not start.
    """
    refuse_open_page(settings)
    oidc.refuse_incomplete(settings)
    make_home(settings)
    with _exclusive(settings.home, settings.public_url):
        refuse_taken_port(settings.web_host, settings.web_port)
        migrate(settings)
        if settings.web_login == "token":
            start_token.renew(settings.start_token_file)
        services = Services(_processes(settings))
        try:
            services.start()
            yield services
        finally:
            services.stop()


@contextlib.contextmanager
def running_workers(settings: Settings) -> Iterator[Services]:
    """Run a worker for each slot of this host inside the block. Raises SettingsError if the host cannot be divided into
    its slots.
    """
    services = Services(_workers(settings))
    try:
        services.start()
        yield services
    finally:
        services.stop()


def worker_command() -> tuple[str, ...]:
    """Return a worker's command: Celery with one process and one job at a time."""
    return (sys.executable, "-m", "workers.celery_app")


def ingester_command() -> tuple[str, ...]:
    return (sys.executable, "-m", "warehouse.ingest.service")


def web_command() -> tuple[str, ...]:
    return (sys.executable, "-m", "webapp")


def _processes(settings: Settings) -> tuple[Process, ...]:
    def process(name: str, command: tuple[str, ...], is_ready: Callable[[], bool]) -> Process:
        return Process(name, command, settings.logs_dir / f"{name}.log", is_ready)

    ours = (
        process("ingester", ingester_command(), settings.warehouse_file.exists),
        *_workers(settings),
        process("web", web_command(), lambda: page_answers(settings.page_url)),
    )
    if settings.broker_url is not None:
        return ours
    command = valkey.prepare(settings.broker_file)
    url = settings.broker_file.read_text(encoding="utf-8").strip()
    return (process("valkey", command, lambda: valkey.answers(url)), *ours)


def _workers(settings: Settings) -> tuple[Process, ...]:
    """Return a worker process for each slot. Raises SettingsError if the host cannot be divided into its slots."""
    if settings.slots == 1:
        return (_worker(settings, "worker", {}),)
    numbers = [slot.number for slot in slots_here(settings)]
    return tuple(_worker(settings, f"worker-{number}", {"DRAFTHOUSE_SLOT": str(number)}) for number in numbers)


def _worker(settings: Settings, name: str, environment: Mapping[str, str]) -> Process:
    """Return a worker: INT stops it at once, and TERM after the block that it measures."""
    log = settings.logs_dir / f"{name}.log"
    return Process(
        name,
        worker_command(),
        log,
        lambda: True,
        environment=environment,
        stop_signal=signal.SIGINT,
        may_end=True,
    )


def _wait_ready(process: Process) -> None:
    deadline_s = time.monotonic() + _READY_TIMEOUT_S
    while not process.is_ready():
        if process.exit_status is not None or time.monotonic() > deadline_s:
            raise UserError(f"{process.name} did not start; its log {process.log} ends with:\n{process.log_tail()}")
        time.sleep(0.05)


def _exclusive(home: Path, page_url: str) -> contextlib.AbstractContextManager[None]:
    use = f"use it at {page_url}, or set DRAFTHOUSE_HOME and DRAFTHOUSE_WEB_PORT for a second one"
    return held(home / "up.lock", lambda process: f"Drafthouse is already up in {home} (process {process}): {use}")


class StoppedError(BaseException):
    """Raised in the main thread by INT or TERM. Not an Exception, so that no `except Exception` swallows it."""


def _stop(number: int, _: FrameType | None) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C must not interrupt the stopping
        signal.signal(ignored, signal.SIG_IGN)
    raise StoppedError(number)


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[None]:
    """End the block on INT or TERM. That is a normal end: the exit status stays 0."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except StoppedError:
        print("\nstopped", flush=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_up(home: Path) -> bool:
    """Return whether a `drafthouse up` holds this home's lock."""
    lock = home / "up.lock"
    if not lock.exists():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def page_answers(page_url: str, within_s: float = 1.0) -> bool:
    """Return whether the page's health check answers in time."""
    try:
        with urllib.request.urlopen(f"{page_url}/healthz", timeout=within_s) as answer:  # noqa: S310 - our own http address
            return bool(answer.status == 200)
    except OSError:
        return False
