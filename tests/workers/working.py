"""A worker in this process."""

from __future__ import annotations

from typing import Any

from jobs.table import Job
from tests.workers.homes import Home
from workers.worker import Worker


def worked(home: Home, **study: Any) -> Job:
    """Submit a study and let the worker work until nothing is queued."""
    job_id = home.submit(**study)
    Worker(home.settings).work()
    return home.job(job_id)
