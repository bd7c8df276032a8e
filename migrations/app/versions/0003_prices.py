"""The price book: what an hour of some hardware costs from a day on.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0003"
down_revision = "app_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prices",
        sa.Column("price_id", sa.Integer, nullable=False),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.Column("valid_from", sa.Date, nullable=False),
        sa.Column("currency", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("rented_per_hour", sa.Double),
        sa.Column("purchase_price", sa.Double),
        sa.Column("lifetime_years", sa.Double),
        sa.Column("utilisation", sa.Double),
        sa.Column("electricity_per_kwh", sa.Double),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("price_id", name="pk_prices"),
    )


def downgrade() -> None:
    op.drop_table("prices")
