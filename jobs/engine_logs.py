"""The log of a running engine: its path, and its last lines."""

from __future__ import annotations

from pathlib import Path

from host.settings import Settings
from warehouse.bundles.run_bundle import LOG_FILE
from warehouse.bundles.store import local_job

#: Enough for any number of lines that a person reads, without reading a huge log as a whole.
_TAIL_BYTES = 1 << 20


def engine_log(logs_dir: Path, job_id: str, number: int = 0) -> Path:
    """Return the log's path of the job's running engine. Each bundle has its own copy.

    `number` counts engines that are up at the same time.
    """
    return logs_dir / "engines" / (f"{job_id}-{number + 1}.log" if number else f"{job_id}.log")


def engine_logs(logs_dir: Path, job_id: str) -> list[Path]:
    """Return the existing logs of the job's engines, the most recently written first."""
    every = [engine_log(logs_dir, job_id), *(logs_dir / "engines").glob(f"{job_id}-*.log")]
    return sorted((path for path in every if path.exists()), key=lambda path: -path.stat().st_mtime)


def log_tail(settings: Settings, job_id: str, lines: int = 200) -> str:
    """Return the last lines of the running engine's log, else of the newest bundle's; empty if there is neither."""
    if Path(job_id).name != job_id:  # from a URL, say
        return ""
    if running := engine_logs(settings.logs_dir, job_id):
        return _tail(running[0], lines)
    copies = list((settings.bundles / job_id).glob(f"[!.]*/{LOG_FILE}"))
    copies = copies or list(local_job(settings, job_id).glob(f"[!.]*/{LOG_FILE}"))
    return _tail(max(copies, key=lambda path: path.stat().st_mtime), lines) if copies else ""


def _tail(path: Path, lines: int) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
