"""Jobs in the app database with small overrides."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from warehouse.app_db.schema import job_events, jobs, studies

NOW = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)


def add_job(connection: sa.Connection, job_id: str) -> None:
    if connection.execute(sa.select(studies.c.study_id)).first() is None:
        connection.execute(studies.insert().values(study_id="s", name="small", toml="", json="{}", created_at=NOW))
    row = {"job_id": job_id, "study_id": "s", "name": "small", "study_json": "{}", "state": "queued"}
    connection.execute(jobs.insert().values(**row, submitted_at=NOW))
    connection.execute(job_events.insert().values(job_id=job_id, at=NOW, kind="submitted", detail=""))
