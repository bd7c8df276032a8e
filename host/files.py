"""Files: the digest of one, replacing one so that no reader sees a part of it, and one as a lock."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import UserError


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_whole(file: Path, text: str, *, private: bool = False) -> None:
    """Write or replace the file, which nobody else can read at any moment if it is private. One that was just written
    may still be lost in a power cut.
    """
    writing = file.with_suffix(f".{os.getpid()}.writing")
    try:
        if private:
            writing.unlink(missing_ok=True)
            writing.touch(0o600, exist_ok=False)
        writing.write_text(text, encoding="utf-8")
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
