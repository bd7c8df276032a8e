"""The lines of an engine's log that explain why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_MAX_LINES = 15
_MAX_CHARS = 500
_READ_BYTES = 1 << 19  # from the end, where the last error is
#: vLLM's prefix of each line: `(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1] `
_MARKS = re.compile(r"^(?:\(\S+ pid=\d+\) ?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \S+ \[[^\]]*\] ?)?")
#: `torch.OutOfMemoryError: ...`, `ValueError: ...`, and argparse's: `vllm serve: error: ...`
_TELLING = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Failure)\b(?::|$)|[\w ./-]+: error: )|[Ss]egmentation|[Kk]illed"
)


def error_excerpt(log: Path) -> str:
    """Return the errors in the log with their explanations, each once and in order; without any, its last lines."""
    lines = [_MARKS.sub("", line) for line in _end(log)]
    errors = list(dict.fromkeys(line[:_MAX_CHARS] for line in _error_lines(lines)))
    return "\n".join((errors or [line[:_MAX_CHARS] for line in lines if line.strip()])[-_MAX_LINES:])


def _error_lines(lines: list[str]) -> Iterator[str]:
    """Yield the line of each error, and the indented lines below it (pydantic's explanation)."""
    explaining = False
    for line in lines:
        if _TELLING.search(line):
            explaining = True
            yield line.rstrip()
        elif (
            explaining and line.startswith("  ") and not line.lstrip().startswith(("File ", "For further information"))
        ):
            yield line.rstrip()
        else:
            explaining = False


def _end(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _READ_BYTES))
        return file.read().decode(errors="replace").splitlines()
