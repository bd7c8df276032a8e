"""Finds new bundles among many without listing all of them each time.

A folder's time of modification changes when something appears in it, so a folder is listed when that has changed, and
for some seconds afterwards, because entries may appear late on a network's file system and the clock of a file system
has coarse ticks. Each round checks the folders of running jobs and of the jobs that changed last; when a
worker requests a round, all of them. In addition all folders are listed one after the other, whatever their times.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from warehouse.bundles.run_bundle import RUN_FILE, is_being_written

#: A folder is listed in every round for this long after it changed.
SETTLES_S = 10.0
#: How many jobs' folders each round checks: those that changed last.
_WATCHED = 50
#: All folders have been listed after this many rounds; of more than 150,000 jobs after more, because a round lists no
#: more than this.
_ROUNDS, _MOST_IN_TURN = 300, 500


@dataclass
class _Folder:
    path: Path
    modified_ns: int = -1  # when it was last checked
    changed_s: float = 0.0  # monotonic: when a change of that time was first seen

    def is_due(self) -> bool:
        """Return whether entries may have appeared since the last call. Raises FileNotFoundError if it is gone."""
        modified_ns, now_s = self.path.stat().st_mtime_ns, time.monotonic()
        if modified_ns != self.modified_ns:
            self.modified_ns, self.changed_s = modified_ns, now_s
        return now_s - self.changed_s <= SETTLES_S


class NewBundles:
    """Finds the bundles under `root` that are not known yet. The first round lists everything."""

    def __init__(self, root: Path) -> None:
        self._root = _Folder(root)
        self._jobs: dict[str, _Folder] = {}  # those that changed last are at the end
        self._unfinished: set[Path] = set()  # folders without a run.json
        self._turn: Iterator[str] = iter(())

    def find(
        self, is_known: Callable[[str], bool], running: Iterable[str] = (), *, all_jobs: bool = False
    ) -> list[Path]:
        """Return the sorted folders of bundles whose path relative to the root is not `is_known`.

        `running` are jobs that may get runs at any time. Raises OSError if a folder cannot be listed.
        """
        fresh = self._new_jobs()
        last = itertools.islice(reversed(self._jobs), _WATCHED)
        looked_at = [*fresh, *(self._jobs if all_jobs else (*last, *running))]
        due = {job: None for job in looked_at if job in self._jobs and self._is_due(job)}
        due |= dict.fromkeys(itertools.islice(self._next_in_turn(), min(_MOST_IN_TURN, len(self._jobs) // _ROUNDS + 1)))
        complete = {path for path in self._unfinished if (path / RUN_FILE).exists()}
        for job in due:
            complete.update(self._listed(job, is_known))
        self._unfinished = {path for path in self._unfinished - complete if path.exists()}
        return sorted(complete)

    def _new_jobs(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            if not self._root.is_due():
                return []
            with os.scandir(self._root.path) as entries:
                there = {entry.name for entry in entries if entry.is_dir()}
            fresh = sorted(there - self._jobs.keys())
            self._jobs = {name: folder for name, folder in self._jobs.items() if name in there}
            self._jobs |= {name: _Folder(self._root.path / name) for name in fresh}
            return fresh
        self._jobs.clear()
        return []

    def _is_due(self, job: str) -> bool:
        folder = self._jobs[job]
        before_s = folder.changed_s
        try:
            is_due = folder.is_due()
        except FileNotFoundError:
            del self._jobs[job]
            return False
        if folder.changed_s != before_s:
            self._jobs[job] = self._jobs.pop(job)  # to the end
        return is_due

    def _next_in_turn(self) -> Iterator[str]:
        for job in self._turn:
            if job in self._jobs:
                yield job
        self._turn = iter(list(self._jobs))

    def _listed(self, job: str, is_known: Callable[[str], bool]) -> Iterator[Path]:
        folder = self._root.path / job
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if not is_being_written(entry.name)]
        except FileNotFoundError:
            return
        for name in names:
            if is_known(f"{job}/{name}"):
                continue
            if (folder / name / RUN_FILE).exists():
                yield folder / name
            else:
                self._unfinished.add(folder / name)
