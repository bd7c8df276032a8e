"""Links that show one dashboard, study or run without a login.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0009"
down_revision = "app_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "shared_links",
        sa.Column("link_id", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("ends_at", moment, nullable=False),
        sa.Column("last_used_at", moment),
        sa.Column("revoked_at", moment),
        sa.PrimaryKeyConstraint("link_id", name="pk_shared_links"),
        sa.UniqueConstraint("token_hash", name="uq_shared_links_token_hash"),
    )
    op.create_index("ix_shared_links_owner", "shared_links", ["owner"])


def downgrade() -> None:
    op.drop_table("shared_links")
