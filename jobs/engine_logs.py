"""The log of a running engine: its path, and its last lines."""

from __future__ import annotations

import contextlib
from pathlib import Path

from host.settings import Settings
from jobs.table import Progress
from warehouse.bundles.run_bundle import LOG_FILE
from warehouse.bundles.store import local_job

#: Enough for any number of lines that a person reads, without reading a huge log as a whole.
_TAIL_BYTES = 1 << 20
#: What a heartbeat carries of it while an engine starts.
_SENT_LINES, _SENT_BYTES = 20, 2000


def engine_log(logs_dir: Path, job_id: str, number: int = 0) -> Path:
    """Return the log's path of the job's running engine. Each bundle has its own copy.

    `number` counts engines that are up at the same time.
    """
    return logs_dir / "engines" / (f"{job_id}-{number + 1}.log" if number else f"{job_id}.log")


def engine_logs(logs_dir: Path, job_id: str) -> list[Path]:
    """Return the existing logs of the job's engines, the most recently written first."""
    every = [engine_log(logs_dir, job_id), *(logs_dir / "engines").glob(f"{job_id}-*.log")]
    return sorted((path for path in every if path.exists()), key=lambda path: -path.stat().st_mtime)


def lines_to_send(logs_dir: Path, job_id: str) -> str:
    """Return the last lines of the running engine's log for a heartbeat; empty if it cannot be read now."""
    with contextlib.suppress(OSError):
        if running := engine_logs(logs_dir, job_id):
            return _tail(running[0], _SENT_LINES, _SENT_BYTES)
    return ""


def log_tail(settings: Settings, job_id: str, lines: int = 200, progress: Progress | None = None) -> str:
    """Return the last lines of the running engine's log, as far as they are here or the job's progress has them, else
    of the newest bundle's; empty if there is none.
    """
    if Path(job_id).name != job_id:  # from a URL, say
        return ""
    if running := engine_logs(settings.logs_dir, job_id):
        return _tail(running[0], lines)
    if progress is not None and progress.engine_log:
        return "\n".join(progress.engine_log.splitlines()[-lines:])
    copies = list((settings.bundles / job_id).glob(f"[!.]*/{LOG_FILE}"))
    copies = copies or list(local_job(settings, job_id).glob(f"[!.]*/{LOG_FILE}"))
    return _tail(max(copies, key=lambda path: path.stat().st_mtime), lines) if copies else ""


def _tail(path: Path, lines: int, most_bytes: int = _TAIL_BYTES) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - most_bytes))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
