"""The repeat blocks of a job that several workers of a host share.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0011"
down_revision = "app_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_blocks",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("lease_expires_at", sa.Double, nullable=False),
        sa.Column("is_done", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "block", name="pk_job_blocks"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_job_blocks_job_id"),
    )


def downgrade() -> None:
    op.drop_table("job_blocks")
