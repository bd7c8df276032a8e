"""Engines that stay up after a study for the next one that needs the same: a start is time not measured.

Only a whole launch is kept, because the engines of one share the memory that each finds at its start. It stands still,
holds memory, and ends when its time is over, when anything else is started on this host while memory is scarce, and
with its worker. docs/decisions/0024-engines-stay-for-the-next-study.md says what counts as the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os.path
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psutil

from host.settings import Settings
from jobs.engines.capabilities import installed_version
from jobs.engines.profiles import Profile
from lab.errors import EngineError
from lab.study import Arm, Study
from workers.engine_runtime.launch import Command, RunningEngine
from workers.engine_runtime.memory_check import memory_bytes
from workers.engine_runtime.process import EngineProcess, end_kept
from workers.engine_runtime.readiness import wait_until_ready

logger = logging.getLogger(__name__)
#: A start ends the engines that other workers of this host keep if less than this share of its memory is available.
_PLENTY = 0.5
_STOP_GRACE_S = 10.0
#: A kept engine that does not answer within this time is restarted.
_WAKES_WITHIN_S = 30.0
_PORT = "--port"
#: Before the mark of a kept engine in the name of its log.
_KEPT_LOG = "kept-"
#: Absolute paths in a word of a command line, which may be JSON; those in quotes may have blanks.
_PATH = re.compile(r"/[^\s\"'=,:;{}\[\]]+")
_QUOTED = re.compile(r'"(/[^"]+)"')


class Identity(NamedTuple):
    """What a start depends on; engines that were started from equal ones are the same."""

    profile: Profile
    version: str
    words: tuple[str, ...]  # of the command line, without the port
    environment: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, int, int], ...]  # path, bytes and time of the files that both name
    weights: tuple[str, ...]


def identity(
    settings: Settings, study: Study, arm: Arm, command: Command, weights: Mapping[str, str | None]
) -> Identity | None:
    """Return what the start of the arm's engine depends on now; None if it may not be kept: its version or its weights
    (on a hub) are unknown, its cache of prompts cannot be emptied, its draft remembers, or its log's folder is part of
    its command.
    """
    kind, speculation = command.kind, arm.speculation
    draft = None if speculation is None else speculation.model
    digests = [weights.get(name) for name in (study.target, draft) if name is not None]
    remembers = study.starts_each_cell(arm) or (
        speculation is not None
        and (speculation.remembers or (kind.remembers is not None and kind.remembers(speculation)))
    )
    own_folder = str(command.log.with_suffix(""))
    version = installed_version(settings, command.profile)
    if (
        not command.argv
        or version is None
        or kind.reset_path is None
        or remembers
        or None in digests
        or any(own_folder in word for word in command.argv)
    ):
        return None
    words = tuple(word for place, word in enumerate(command.argv) if place == 0 or command.argv[place - 1] != _PORT)
    environment = tuple(sorted(command.own_environment.items()))
    paths = {path for word in words for path in _paths(word)}
    # no folders: those are caches and the like; and a value may be too long for a path
    paths |= {value for _, value in environment if os.path.isfile(value)}  # noqa: PTH113
    return Identity(
        command.profile,
        version,
        words,
        environment,
        tuple(file for path in sorted(paths) for file in _files(Path(path))),
        tuple(digest for digest in digests if digest is not None),
    )


def _paths(word: str) -> list[str]:
    """Return what may be absolute paths in a word: the whole word, an option's value, and parts of either."""
    return [word, word.partition("=")[2], *_QUOTED.findall(word), *_PATH.findall(word)]


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Return path, bytes and time of a file, or of the files right in a folder; nothing if neither exists, or the
    path is relative.
    """
    if not path.is_absolute():
        return []
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        stats = [(file, file.stat()) for file in files if file.is_file()]
    except (OSError, ValueError):  # too long for a path, say
        return []
    return [(str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats]


@dataclass(frozen=True)
class KeptLaunch:
    """The engines of a launch, in the order of its arms. `origin` is the launch that started them, as job_id/index.

    `served` are the launches that were measured on them: any other launch of one of these jobs needs a start of its
    own.
    """

    identities: tuple[Identity, ...]
    engines: tuple[RunningEngine, ...]
    origin: str
    served: frozenset[tuple[str, int]]

    @property
    def processes(self) -> list[EngineProcess]:
        return [engine.process for engine in self.engines if isinstance(engine.process, EngineProcess)]

    @property
    def is_alive(self) -> bool:
        return all(process.exit_status is None for process in self.processes)


class KeptEngines:
    """The launch that a worker keeps, one at most."""

    def __init__(self, settings: Settings) -> None:
        self._for_s = settings.keep_engines_for_s
        self._kept: KeptLaunch | None = None
        self._until_s = 0.0  # time.monotonic

    def __bool__(self) -> bool:
        return self._kept is not None

    @property
    def is_on(self) -> bool:
        return self._for_s > 0

    def keep(self, launch: KeptLaunch, *, suspends: bool) -> bool:
        """Keep the launch, suspended if wanted. Return False if there is no memory for as much again, or the disk does
        not take what that writes: the caller then stops it.
        """
        if psutil.virtual_memory().available < sum(map(memory_bytes, launch.processes)):
            return False
        logs = [engine.command.log for engine in launch.engines]
        names = [
            f"{_KEPT_LOG}{process.mark_file.stem}{log.suffix}"
            for process, log in zip(launch.processes, logs, strict=True)
        ]
        kept_logs = [log.with_name(name) for log, name in zip(logs, names, strict=True)]
        try:
            kept = _moved(launch, kept_logs)
            for process in launch.processes:
                process.let_others_end()
        except OSError as error:
            logger.warning("engines are not kept: %s", error)
            with contextlib.suppress(OSError):
                for log in kept_logs:
                    log.unlink(missing_ok=True)
            return False
        self._kept, self._until_s = kept, time.monotonic() + self._for_s
        for process in launch.processes:
            (process.suspend if suspends else process.resume)()
        return True

    def take(
        self, wanted: Sequence[Identity | None], logs: Sequence[Path], launch: tuple[str, int]
    ) -> KeptLaunch | None:
        """Return the kept launch, resumed and with its logs moved to these, if it is the one wanted and no other launch
        of this job has used it. Else end it.
        """
        kept = self._kept
        if (
            kept is None
            or kept.identities != tuple(wanted)
            or any(served[0] == launch[0] and served != launch for served in kept.served)
            or not kept.is_alive
        ):
            self.end()
            return None
        try:
            are_ours = [process.is_taken_back() for process in kept.processes]
            moved = _moved(kept, logs)
        except OSError as error:
            logger.warning("kept engines are started anew: %s", error)
            are_ours = [False]
        if not all(are_ours):  # another worker ends one of them now
            self.end()
            return None
        self._kept = None
        for process in kept.processes:
            process.resume()
        logger.info("the engines of %s are taken over for %s/%d", kept.origin, *launch)
        origin = None if kept.origin == f"{launch[0]}/{launch[1]}" else kept.origin
        return replace(moved, engines=tuple(replace(engine, taken_over_from=origin) for engine in moved.engines))

    def end(self, grace_s: float = _STOP_GRACE_S) -> None:
        """End what is kept."""
        if (kept := self._kept) is None:
            return
        self._kept = None
        with ThreadPoolExecutor(len(kept.engines), "stop engine") as pool:
            list(pool.map(lambda process: process.stop(grace_s), kept.processes))
        for engine in kept.engines:
            engine.command.log.unlink(missing_ok=True)

    def end_if_over(self) -> None:
        """End what is kept if its time is over or one of its engines has ended."""
        if self._kept is not None and (time.monotonic() >= self._until_s or not self._kept.is_alive):
            self.end()

    @property
    def words(self) -> str | None:
        """Say what is kept and until when, as `2 engines until 14:05 UTC`; None without any."""
        if self._kept is None:
            return None
        count, left_s = len(self._kept.engines), self._until_s - time.monotonic()
        until = datetime.now(UTC) + timedelta(seconds=left_s)
        return f"{count} engine{'s' * (count != 1)} until {until:%H:%M} UTC"


def remove_left_logs(settings: Settings) -> None:
    """Remove the logs of engines that were kept by a worker that was killed."""
    for log in (settings.logs_dir / "engines").glob(f"{_KEPT_LOG}*.log"):
        if not (settings.home / "engines" / f"{log.stem.removeprefix(_KEPT_LOG)}.json").exists():
            log.unlink(missing_ok=True)


def _moved(launch: KeptLaunch, logs: Sequence[Path]) -> KeptLaunch:
    """Return the launch with its logs renamed to these; the engines keep writing them."""
    engines = []
    for engine, log in zip(launch.engines, logs, strict=True):
        engine.command.log.replace(log)
        engines.append(replace(engine, command=replace(engine.command, log=log)))
    return replace(launch, engines=tuple(engines))


async def all_answer(engines: Sequence[RunningEngine]) -> bool:
    """Return whether each of these answers a request soon."""

    async def answers(engine: RunningEngine) -> None:
        await wait_until_ready(engine.command.endpoint, engine.command.kind, engine.why_dead)

    try:
        async with asyncio.timeout(_WAKES_WITHIN_S):
            await asyncio.gather(*map(answers, engines))
    except (EngineError, TimeoutError) as why:
        logger.warning("kept engines are started anew: %s", why or f"no answer within {_WAKES_WITHIN_S:g} s")
        return False
    return True


def make_room(marks: Path) -> None:
    """Before engines are started: end those that other workers of this host keep, if memory is scarce."""
    memory = psutil.virtual_memory()
    if memory.available < _PLENTY * memory.total:
        end_kept(marks)
