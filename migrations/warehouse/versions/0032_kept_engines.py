"""A run says whose launch started its engines, if they were taken over from an earlier study.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0032"
down_revision = "warehouse_0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE runs ADD COLUMN taken_over_from VARCHAR")


def downgrade() -> None:
    op.execute("ALTER TABLE runs DROP COLUMN taken_over_from")
