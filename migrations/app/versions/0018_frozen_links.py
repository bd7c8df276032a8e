"""Shared links may show the data of a point in time. Those made before show the newest.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0018"
down_revision = "app_0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("shared_links", sa.Column("as_of", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("shared_links", "as_of")
