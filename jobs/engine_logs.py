"""The log of a running engine: its path, and its last lines."""

from __future__ import annotations

from pathlib import Path

from warehouse.bundles.run_bundle import LOG_FILE
from warehouse.settings import Settings

#: Enough for any number of lines that a person reads, without reading a huge log as a whole.
_TAIL_BYTES = 1 << 20


def engine_log(logs_dir: Path, job_id: str) -> Path:
    """Return the path of the log of the job's running engine. Each bundle keeps its own copy."""
    return logs_dir / "engines" / f"{job_id}.log"


def log_tail(settings: Settings, job_id: str, lines: int = 200) -> str:
    """Return the last lines of the running engine's log, or of the job's newest bundle; empty if there is neither."""
    if Path(job_id).name != job_id:  # from a URL, say
        return ""
    candidates = [engine_log(settings.logs_dir, job_id), *(settings.bundles / job_id).glob(f"*/{LOG_FILE}")]
    there = [path for path in candidates if path.exists()]
    if candidates[0] in there:
        return _tail(candidates[0], lines)
    return _tail(max(there, key=lambda path: path.stat().st_mtime), lines) if there else ""


def _tail(path: Path, lines: int) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
