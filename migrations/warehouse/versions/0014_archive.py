"""Requests of old runs can lie in Parquet files: the table of the others has a name of its own.

`request_records` is a view on both.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0014"
down_revision = "warehouse_0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.rename_table("request_records", "recent_requests")
    op.create_table(
        "archived_runs",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS request_records")
    op.drop_table("archived_runs")
    op.rename_table("recent_requests", "request_records")
