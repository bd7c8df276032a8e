"""Small dataset files for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def write_rows(path: Path, rows: Iterable[object]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
