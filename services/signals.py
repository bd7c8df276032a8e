"""Turn Ctrl-C and TERM into an orderly end of a block, so that it stops what it started."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StoppedError(BaseException):
    """Raised in the main thread by INT or TERM. Not an Exception, so that no handler of those swallows it."""


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
