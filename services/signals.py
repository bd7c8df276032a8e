"""Ctrl-C and TERM end a block in an orderly way, so that what it started is stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StoppedError(BaseException):
    """Raised where the program stands when it is told to stop; no `except Exception` may hold it up."""


def _stop(number: int, _: FrameType | None) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C must not interrupt the stopping
        signal.signal(ignored, signal.SIG_IGN)
    raise StoppedError(number)


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[None]:
    """Inside the block INT and TERM stop it; being told to stop is an ordinary end, with exit status 0."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except StoppedError:
        print("\nstopped", flush=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
