"""A worker without Celery, as a module: `once` works until nothing is queued, else it polls until it is killed."""

from __future__ import annotations

import sys

from host.settings import load_settings
from workers.slots import take_slot
from workers.worker import Worker


def main(*, once: bool) -> None:
    settings = load_settings()
    take_slot(settings)
    worker = Worker(settings)
    if once:
        worker.work()
        return
    worker.start()
    worker.join()


if __name__ == "__main__":
    main(once="once" in sys.argv)
