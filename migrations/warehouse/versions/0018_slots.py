"""Runs have the slot of the host that they were measured on.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0018"
down_revision = "warehouse_0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("slot", sa.Integer))


def downgrade() -> None:
    op.drop_column("runs", "slot")
