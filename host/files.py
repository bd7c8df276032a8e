"""Files: the digest of one, replacing one so that no reader sees a part of it, and one as a lock."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import UserError


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_whole(file: Path, text: str, *, private: bool = False) -> None:
    """Write or replace the file. After a power cut it is the old or the new one. A private file can be read by nobody
    else at any moment.
    """
    writing = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.writing")
    writing.unlink(missing_ok=True)  # of a process that had this id
    try:
        descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(descriptor)
        writing.replace(file)
    finally:
        writing.unlink(missing_ok=True)


@contextlib.contextmanager
def held(lock: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold a lock, which kill -9 frees. If another process holds it, raise UserError at once: the refusal of its id."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(refusal(file.read().strip())) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
