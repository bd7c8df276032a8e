"""Why a worker starts no engine.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0013"
down_revision = "app_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("waits_for", sa.Text))


def downgrade() -> None:
    op.drop_column("workers", "waits_for")
