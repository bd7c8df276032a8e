"""Tokens with which programs use the API in a user's name.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0008"
down_revision = "app_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "api_tokens",
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("token_hash", sa.Text, nullable=False),
        sa.Column("name", sa.Text, sa.ForeignKey("users.name", name="fk_api_tokens_name"), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("ends_at", moment, nullable=False),
        sa.Column("last_used_at", moment),
        sa.Column("revoked_at", moment),
        sa.PrimaryKeyConstraint("token_id", name="pk_api_tokens"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
    )
    op.create_index("ix_api_tokens_name", "api_tokens", ["name"])


def downgrade() -> None:
    op.drop_table("api_tokens")
