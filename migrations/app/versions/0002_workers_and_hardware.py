"""Workers and what they have, jobs that ask for hardware, and retries that measure everything again.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0002"
down_revision = "app_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("hardware", sa.Text))
    op.add_column("jobs", sa.Column("reuse_from_try", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "workers",
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("engines_json", sa.Text),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("job_id", sa.Text),
        sa.PrimaryKeyConstraint("worker", name="pk_workers"),
    )


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_column("jobs", "reuse_from_try")
    op.drop_column("jobs", "hardware")
