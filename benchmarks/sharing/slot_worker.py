"""The worker of one slot, without Celery: a process of its own, for part slots. The variables say which slot."""

from __future__ import annotations

import os

from host.settings import load_settings
from workers.slots import take_slot
from workers.worker import Worker


def main() -> None:
    settings = load_settings()
    if (os.cpu_count() or 1) >= settings.slots:
        take_slot(settings)
    worker = Worker(settings)
    worker.start()
    worker.join()


if __name__ == "__main__":
    main()
