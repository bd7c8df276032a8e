"""Threads without which a worker must not go on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)
#: EX_SOFTWARE of sysexits.h: an error of the program itself.
EXIT_STATUS = 70


def vital_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """Return a thread that ends the process, with the traceback in its log, if `work` fails.

    A worker without its heartbeat would lose its lease and measure beside its successor; one without its polls would
    look alive and take no job. An ended process is started again by `drafthouse up`, or by the container's restart
    policy, and the job goes on from its bundles.
    """

    def run() -> None:
        try:
            work()
        except BaseException:
            logger.critical("the thread %r failed, so this process ends", name, exc_info=True)
            logging.shutdown()
            os._exit(EXIT_STATUS)  # sys.exit would end this thread alone

    return threading.Thread(target=run, name=name, daemon=True)
