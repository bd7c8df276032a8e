"""A worker without Celery, as a module: `once` works until nothing is queued, else it polls until it is killed.

`hold NUMBER FILE` makes the file as the window of this number begins, and stays in it until it is killed.
"""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path

from host.settings import load_settings
from lab.study.plan import PlannedRun
from workers.job_progress import JobStatus
from workers.slots import take_slot
from workers.worker import Worker


def hold(number: int, file: Path) -> None:
    begins, begun = JobStatus.window_begins, itertools.count(1)

    def holding(self: JobStatus, run: PlannedRun) -> None:
        begins(self, run)
        if next(begun) == number:
            file.touch()
            threading.Event().wait()

    JobStatus.window_begins = holding  # type: ignore[method-assign]


def main(*words: str) -> None:
    settings = load_settings()
    take_slot(settings)
    if "hold" in words:
        number, file = words[words.index("hold") + 1 :]
        hold(int(number), Path(file))
    worker = Worker(settings)
    if "once" in words:
        worker.work()
        return
    worker.start()
    worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
