"""The times of chunks are stored as whole microseconds, which takes a third of the bytes. Bundles have them exactly.
Requests have the moment at which their run began.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0021"
down_revision = "warehouse_0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE recent_requests ALTER COLUMN chunk_s TYPE DECIMAL(18, 6)[]")
    op.add_column("recent_requests", sa.Column("run_started_at", sa.DateTime(timezone=True)))
    op.execute(
        "UPDATE recent_requests SET run_started_at = runs.started_at FROM runs "
        "WHERE runs.run_id = recent_requests.run_id AND runs.started_at IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_column("recent_requests", "run_started_at")
    op.execute("ALTER TABLE recent_requests ALTER COLUMN chunk_s TYPE DOUBLE[]")
