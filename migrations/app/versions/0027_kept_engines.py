"""A worker says which engines it keeps for the next study, and until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0027"
down_revision = "app_0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("keeps", sa.Text))


def downgrade() -> None:
    op.drop_column("workers", "keeps")
