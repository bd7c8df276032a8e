"""Quiet windows: holds other work of the lab back during measurements, and records what ran beside them.

Each process announces its work by a file in `<home>/machines/<this boot>/`, locked while the work lasts. The
kernel drops the lock however the process ends, so an announcement is never stale. A window is announced first, and then
waits, within a bound, for an ingestion that is under way; an ingestion is announced first, and withdrawn if there is a
window: neither begins unseen by the other. What took a tenth of a second or longer is added to `ended.jsonl` at its
end, where a window reads what ran beside it.

Containers of one machine see each other if they share the home. Moments are time.monotonic, which all processes of a
machine share.
"""

from __future__ import annotations

import contextlib
import contextvars
import fcntl
import functools
import hashlib
import json
import os
import platform
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeVar

from host.priority import take_lowest_priority

T = TypeVar("T")
Kind = Literal["window", "job", "ingester", "ingest", "question", "command"]
#: The work that a window records if it ran during it. Another worker's job covers its windows and its engine's starts.
_RECORDED = frozenset({"job", "ingest", "question", "command"})
LEAST_RECORDED_S = 0.1
#: Interval at which the ingester looks whether windows have ended, and whether a round was requested.
_POLL_EVERY_S = 0.1
#: Windows of several workers may follow one another without a gap. They disturb each other anyway.
_CROWDED_FOR_S = 60.0
_ENDED, _ENDED_BEFORE, _MAX_ENDED_BYTES = "ended.jsonl", "ended-before.jsonl", 1 << 18
_ASKED = "asked-"


@dataclass(frozen=True)
class Work:
    """Announced work; `ended_s` is None while it is under way."""

    name: str
    kind: str
    what: str
    began_s: float
    ended_s: float | None = None


class RanBeside(NamedTuple):
    """The work of another of our processes on the machine within a span of time; equal work is summed."""

    kind: str  # of _RECORDED
    what: str
    seconds: float


@contextlib.contextmanager
def announced(home: Path, kind: Kind, subject: str) -> Iterator[None]:
    """Announce work on this machine while the block runs. Raises OSError if the home cannot be written."""
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    work = Work(f"{kind}-{uuid.uuid4().hex}", kind, subject, time.monotonic())
    path, hidden = folder / work.name, folder / f".{work.name}"
    with hidden.open("x", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump([work.what, work.began_s], file)
            file.flush()
            hidden.rename(path)  # nobody sees it unlocked
            yield
        finally:
            _remember(folder, work)
            for file_path in (hidden, path):
                file_path.unlink(missing_ok=True)


def under_way(home: Path, *kinds: Kind) -> list[Work]:
    """Return the work of these kinds that is announced on this machine."""
    announced_work = []
    for path in _folder(home).glob("[!.]*-*"):
        kind = path.name.partition("-")[0]
        if kind in kinds:
            with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
                if _is_free(file):
                    path.unlink(missing_ok=True)  # its process was killed
                else:
                    subject, began_s = json.load(file)
                    announced_work.append(Work(path.name, kind, subject, began_s))
    return announced_work


def beside(home: Path, began_s: float, ended_s: float, job_id: str) -> tuple[RanBeside, ...]:
    """Return the work on this machine between two moments other than the job itself, longest first.

    Only work that takes LEAST_RECORDED_S or longer; equal work is summed.
    """
    going_on = under_way(
        home, "job", "ingest", "question", "command"
    )  # first, so that work that ends meanwhile is among the ended
    long = [work for work in going_on if time.monotonic() - work.began_s >= LEAST_RECORDED_S]
    every = {work.name: work for work in (*long, *_ended(_folder(home)))}
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for work in every.values():
        overlap_s = min(ended_s, work.ended_s or ended_s) - max(began_s, work.began_s)
        if work.kind in _RECORDED and (work.kind, work.what) != ("job", job_id) and overlap_s > 0:
            seconds[work.kind, work.what] += overlap_s
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    return tuple(RanBeside(kind, subject, took_s) for (kind, subject), took_s in longest)


def ask_for_round(home: Path) -> Path | None:
    """Request a round of this machine's ingester at once; return None if there is no ingester.

    The ingester removes the returned file when everything that was on disk by then is published.
    """
    if not under_way(home, "ingester"):
        return None
    request = _folder(home) / f"{_ASKED}{uuid.uuid4().hex}"
    request.touch()
    return request


def asked_rounds(home: Path) -> list[Path]:
    """Return the rounds that were requested of the ingester."""
    return list(_folder(home).glob(f"{_ASKED}*"))


@contextlib.contextmanager
def between_windows(home: Path, stop: threading.Event, subject: str = "new runs") -> Iterator[bool]:
    """Wait until no window is on, and announce an ingestion; False if `stop` was set first."""
    crowded_since_s: float | None = None
    while True:
        windows = under_way(home, "window")
        crowded_since_s = (crowded_since_s or time.monotonic()) if len(windows) > 1 else None
        if not windows or (crowded_since_s is not None and time.monotonic() - crowded_since_s > _CROWDED_FOR_S):
            with announced(home, "ingest", subject):
                if len(under_way(home, "window")) <= len(windows):
                    yield True
                    return
        if stop.wait(_POLL_EVERY_S):
            yield False
            return


def wait_until_asked(home: Path, stop: threading.Event, at_most_s: float) -> None:
    """Wait until a round is requested, `stop` is set, or the time is over."""
    folder, until_s = str(_folder(home)), time.monotonic() + at_most_s
    while not _is_asked(folder) and (left_s := until_s - time.monotonic()) > 0:
        if stop.wait(min(left_s, _POLL_EVERY_S)):
            return


def _is_asked(folder: str) -> bool:
    """Return whether a round was requested; kept cheap, as it is called ten times a second."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return any(entry.name.startswith(_ASKED) for entry in entries)
    return False


@contextlib.contextmanager
def announced_if_possible(home: Path, kind: Kind, subject: str) -> Iterator[None]:
    """Announce work if the home can be written; the work itself needs no announcement."""
    with contextlib.ExitStack() as stack:
        if home.is_dir():
            with contextlib.suppress(OSError):
                stack.enter_context(announced(home, kind, subject))
        yield


def run_at_low_priority(home: Path, subject: str, question: Callable[[], T]) -> T:
    """Run a query that may take long: announced, and at the lowest priority while a window is on."""
    with announced_if_possible(home, "question", subject):
        if not under_way(home, "window"):
            return question()
        return _low_priority_threads().submit(contextvars.copy_context().run, question).result()


@contextlib.contextmanager
def command(home: Path, subject: str) -> Iterator[None]:
    """Announce a user's command; its whole process takes the lowest priority if a window is on at its start."""
    if under_way(home, "window"):
        take_lowest_priority()
    with announced_if_possible(home, "command", subject):
        yield


@functools.cache
def _low_priority_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, "question", initializer=take_lowest_priority)


def _folder(home: Path) -> Path:
    return home / "machines" / _machine()


@functools.cache
def _machine() -> str:
    """Return the id of this boot of this machine, the same in all of its containers."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return hashlib.sha256((boot.read_text() if boot.exists() else platform.node()).encode()).hexdigest()[:12]


def _is_free(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remember(folder: Path, work: Work) -> None:
    """Add work that has ended to the list of ended work if it took long enough. One earlier file is kept, too."""
    ended_s = time.monotonic()
    if work.kind not in _RECORDED or ended_s - work.began_s < LEAST_RECORDED_S:
        return
    with contextlib.suppress(OSError), (folder / _ENDED).open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps([work.name, work.kind, work.what, work.began_s, ended_s]) + "\n")
        file.flush()
        if file.tell() > _MAX_ENDED_BYTES and os.path.samestat(os.fstat(file.fileno()), (folder / _ENDED).stat()):
            (folder / _ENDED).replace(folder / _ENDED_BEFORE)


def _ended(folder: Path) -> Iterator[Work]:
    for name in (_ENDED_BEFORE, _ENDED):
        with contextlib.suppress(FileNotFoundError):
            for line in (folder / name).read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):  # a full disk cut it
                    yield Work(*json.loads(line))
