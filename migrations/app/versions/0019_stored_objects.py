"""The table of what is in the object store, in the order in which it came there.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0019"
down_revision = "app_0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stored_objects",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("serial", sa.Integer),
        sa.Column("manifest_sha256", sa.Text),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_stored_objects"),
        sa.UniqueConstraint("serial", name="uq_stored_objects_serial"),
    )
    op.create_index("ix_stored_objects_job_id", "stored_objects", ["job_id"])


def downgrade() -> None:
    op.drop_table("stored_objects")
