"""Errors of the operating system as sentences for users: the operation, the file, and the reason."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from lab.errors import HostError, UserError

#: Errors of a disk, share or network that is full, read-only, broken or away, and of a host without memory or handles:
#: no study has caused them. A file that does not exist is none of them.
_OF_HOST = frozenset(
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "ESTALE", "ENOTCONN", "ETIMEDOUT", "EHOSTDOWN"),
        *("EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "EREMOTEIO", "ENODEV", "ENXIO", "ENOMEM", "EMFILE", "ENFILE"),
    )
    if hasattr(errno, name)
)


def is_of_host(error: BaseException) -> bool:
    """Return whether the host has caused the error, and not the study."""
    return isinstance(error, OSError) and (error.errno in _OF_HOST or isinstance(error, TimeoutError))


@contextlib.contextmanager
def named_os_errors(operation: str) -> Iterator[None]:
    """Raise HostError or UserError in place of an OSError inside; its cause, and so its traceback, is that error."""
    try:
        yield
    except OSError as error:
        if is_of_host(error):
            raise HostError(what_failed(operation, error)) from error
        raise UserError(f"{what_failed(operation, error)}. Fix that, then retry the job") from error


def what_failed(operation: str, error: OSError) -> str:
    """Return `writing a bundle failed: /x/run.json: No space left on device`."""
    files = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = error.strerror or str(error) or type(error).__name__
    return ": ".join(part for part in (f"{operation} failed", files, reason) if part)
