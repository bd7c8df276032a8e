"""A card of a dashboard may be given another width than its figure's own.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0010"
down_revision = "app_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pins", sa.Column("is_wide", sa.Boolean))


def downgrade() -> None:
    op.drop_column("pins", "is_wide")
