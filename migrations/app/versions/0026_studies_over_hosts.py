"""A study may be spread over like hosts: which jobs, and what each block was measured with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0026"
down_revision = "app_0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("over_hosts", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("job_blocks", sa.Column("likeness", sa.Text))


def downgrade() -> None:
    op.drop_column("job_blocks", "likeness")
    op.drop_column("jobs", "over_hosts")
