"""The index of queued jobs has all that a claim looks at, so that it reads no job that its host cannot run.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0021"
down_revision = "app_0020"
branch_labels = None
depends_on = None

_OWN = ("submitted_by", sa.text("priority DESC"), "submitted_at", "job_id")
_QUEUED = sa.text("state = 'queued'")


def upgrade() -> None:
    _replace(*_OWN, "hardware", "needs", "state")


def downgrade() -> None:
    _replace(*_OWN)


def _replace(*columns: str | sa.TextClause) -> None:
    op.drop_index("ix_jobs_queued", "jobs")
    op.create_index("ix_jobs_queued", "jobs", columns, postgresql_where=_QUEUED, sqlite_where=_QUEUED)
