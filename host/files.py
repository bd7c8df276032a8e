"""Files: the digest of one, and replacing one so that no reader sees a part of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_whole(file: Path, text: str) -> None:
    """Write or replace the file; one that was just written may still be lost in a power cut."""
    writing = file.with_suffix(f".{os.getpid()}.writing")
    try:
        writing.write_text(text, encoding="utf-8")
        writing.replace(file)
    finally:
        writing.unlink(missing_ok=True)
