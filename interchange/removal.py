"""Removing imported results and restoring them, by whom and when."""

from __future__ import annotations

from host.settings import Settings
from lab import roles
from lab.roles import Actor, Change
from warehouse.app_db import audit
from warehouse.app_db.engine import app_engine
from warehouse.bundles.removed import remove_job, restore_job


def remove_imported(settings: Settings, job_id: str, *, actor: Actor) -> None:
    """Remove all runs of a job of imported results. Raises UserError for any other job, and AccessError."""
    roles.require(actor, Change.IMPORT)
    remove_job(settings.bundles, job_id)
    _record(settings, actor, job_id, removed=True)


def restore_imported(settings: Settings, job_id: str, *, actor: Actor) -> None:
    """Restore the runs that `remove_imported` removed last. Raises UserError if there are none, and AccessError."""
    roles.require(actor, Change.IMPORT)
    restore_job(settings.bundles, job_id)
    _record(settings, actor, job_id, restored=True)


def _record(settings: Settings, actor: Actor, job_id: str, **detail: object) -> None:
    engine = app_engine(settings.app_database_url)
    try:
        audit.record_alone(engine, actor, Change.IMPORT, job_id, **detail)
    finally:
        engine.dispose()
