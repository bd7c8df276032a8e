"""What a link stands for, under a short id, and the queries that somebody gave a name.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0004"
down_revision = "app_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kept_views",
        sa.Column("view_id", sa.Text, nullable=False),
        sa.Column("page", sa.Text, nullable=False),
        sa.Column("state_json", sa.Text, nullable=False),
        sa.Column("kept_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("view_id", name="pk_kept_views"),
    )
    op.create_table(
        "named_views",
        sa.Column("page", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column(
            "view_id", sa.Text, sa.ForeignKey("kept_views.view_id", name="fk_named_views_view_id"), nullable=False
        ),
        sa.Column("named_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("page", "name", name="pk_named_views"),
    )


def downgrade() -> None:
    op.drop_table("named_views")
    op.drop_table("kept_views")
