"""Dashboards, and what is pinned to them.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0005"
down_revision = "app_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dashboards",
        sa.Column("dashboard_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("dashboard_id", name="pk_dashboards"),
    )
    op.create_table(
        "pins",
        sa.Column("pin_id", sa.Text, nullable=False),
        sa.Column(
            "dashboard_id",
            sa.Text,
            sa.ForeignKey("dashboards.dashboard_id", name="fk_pins_dashboard_id"),
            nullable=False,
        ),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("page", sa.Text, nullable=False),
        sa.Column("parameters_json", sa.Text, nullable=False),
        sa.Column("figure", sa.Text, nullable=False),
        sa.Column("caption", sa.Text, nullable=False),
        sa.Column("as_of", sa.DateTime(timezone=True)),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("pin_id", name="pk_pins"),
    )
    op.create_index("ix_pins_dashboard_id", "pins", ["dashboard_id"])


def downgrade() -> None:
    op.drop_table("pins")
    op.drop_table("dashboards")
