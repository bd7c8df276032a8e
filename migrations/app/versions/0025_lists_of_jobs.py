"""Indexes for lists of many jobs: by state, by filters, and of those that were set aside."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0025"
down_revision = "app_0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_jobs_state_priority_submitted_at", "jobs")
    op.drop_index("ix_jobs_submitted_at_job_id", "jobs")
    op.create_index("ix_jobs_state_submitted_at_job_id", "jobs", ["state", "submitted_at", "job_id"])
    op.create_index("ix_jobs_listed", "jobs", ["submitted_at", "job_id", "state", "name", "submitted_by"])
    set_aside = sa.text("kind = 'set aside'")
    op.create_index(
        "ix_job_events_set_aside", "job_events", ["job_id"], postgresql_where=set_aside, sqlite_where=set_aside
    )


def downgrade() -> None:
    op.drop_index("ix_job_events_set_aside", "job_events")
    op.drop_index("ix_jobs_listed", "jobs")
    op.drop_index("ix_jobs_state_submitted_at_job_id", "jobs")
    op.create_index("ix_jobs_submitted_at_job_id", "jobs", ["submitted_at", "job_id"])
    op.create_index("ix_jobs_state_priority_submitted_at", "jobs", ["state", "priority", "submitted_at"])
