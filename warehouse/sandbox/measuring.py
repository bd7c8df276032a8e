"""What somebody with a question is told while a run is measured on this host, which has the processors first."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from host import quiet
from host.quiet import Work
from host.settings import Settings
from lab.study.duration import rough_duration

#: A longer time is told in minutes.
_MOST_SECONDS = 100


def measured_now(settings: Settings) -> str:
    """Say that a run is being measured on this host, and about how much longer, if that is known; empty without one."""
    windows = quiet.under_way(settings.home, "window")
    if not windows:
        return ""
    left_s = _left_s(settings, windows)
    longer = "" if left_s is None else f" for about {_told(left_s)} more"
    return f"a run is being measured on this host{longer} and has its processors first"


def _told(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds <= _MOST_SECONDS else rough_duration(seconds)


def _left_s(settings: Settings, windows: Sequence[Work]) -> float | None:
    """Return until when the last of the windows will end, by the share of its requests that are done; None: unknown."""
    import sqlalchemy as sa  # noqa: PLC0415 - most questions do without

    from warehouse.app_db.engine import DATABASE_ERRORS, open_engine, reading  # noqa: PLC0415 - likewise
    from warehouse.app_db.schema import jobs  # noqa: PLC0415 - likewise

    query = sa.select(jobs.c.job_id, jobs.c.progress_json).where(jobs.c.job_id.in_([of.what for of in windows]))
    try:
        with open_engine(settings.app_database_url) as engine, reading(engine).connect() as connection:
            stored = {row.job_id: json.loads(row.progress_json or "{}") for row in connection.execute(query)}
    except DATABASE_ERRORS:
        return None
    left: list[float] = []
    for window in windows:
        progress = stored.get(window.what, {})
        done, total = progress.get("requests_done"), progress.get("requests_total")
        if progress.get("phase") != "measuring" or not done or not total:
            return None
        left.append((time.monotonic() - window.began_s) * max(0.0, total / done - 1))
    return max(left)
