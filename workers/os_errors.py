"""Errors of the operating system as sentences for users: the operation, the file, and the reason."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from lab.errors import UserError


@contextlib.contextmanager
def named_os_errors(operation: str) -> Iterator[None]:
    """Raise UserError in place of an OSError inside; its cause, and so its traceback, is that error."""
    try:
        yield
    except OSError as error:
        raise UserError(sentence(operation, error)) from error


def sentence(operation: str, error: OSError) -> str:
    """Return `writing a bundle failed: /x/run.json: No space left on device. Free some space, then retry the job`."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Free some space, then retry the job" if full else "Fix that, then retry the job"
    return f"{what_failed(operation, error)}. {remedy}"


def what_failed(operation: str, error: OSError) -> str:
    """Return `writing a bundle failed: /x/run.json: No space left on device`."""
    files = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = error.strerror or str(error) or type(error).__name__
    return ": ".join(part for part in (f"{operation} failed", files, reason) if part)
