"""What people add to studies: a name, a note and tags; which are hidden or deleted; and who imported them.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0022"
down_revision = "app_0021"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "curated_studies",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("note", sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column("tags", sa.Text, server_default=sa.text("''"), nullable=False),
        *(sa.Column(name, _MOMENT) for name in ("hidden_at", "deleted_at")),
        sa.Column("deleted_by", sa.Text),
        sa.Column("called", sa.Text),
        sa.Column("purged_at", _MOMENT),
        sa.Column("owner", sa.Text),
        sa.PrimaryKeyConstraint("job_id", name="pk_curated_studies"),
    )


def downgrade() -> None:
    op.drop_table("curated_studies")
