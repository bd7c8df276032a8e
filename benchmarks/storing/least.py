"""Processor time of work in this process: of several repeats the least, because other work on the machine only adds."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_processor_s(work: Callable[[int], object], repeats: int) -> float:
    """Return the least processor seconds of `work`, which gets the number of the repeat."""

    def one(repeat: int) -> float:
        began_s = time.process_time()
        work(repeat)
        return time.process_time() - began_s

    return min(map(one, range(repeats)))
