"""Indexes by which the newest jobs, and those that ended last, are found among many.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "app_0006"
down_revision = "app_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_jobs_submitted_at_job_id", "jobs", ["submitted_at", "job_id"])
    op.create_index("ix_jobs_finished_at_job_id", "jobs", ["finished_at", "job_id"])


def downgrade() -> None:
    op.drop_index("ix_jobs_finished_at_job_id", "jobs")
    op.drop_index("ix_jobs_submitted_at_job_id", "jobs")
