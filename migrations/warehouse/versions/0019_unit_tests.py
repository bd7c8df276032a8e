"""Requests have whether their code passed the expected tests.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0019"
down_revision = "warehouse_0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("recent_requests", sa.Column("tests_passed", sa.Double))


def downgrade() -> None:
    op.drop_column("recent_requests", "tests_passed")
