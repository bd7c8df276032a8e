"""A night is that of one arm, and has the label under which it was imported; a series may watch all arms.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0031"
down_revision = "warehouse_0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("arm", "label"):
        op.execute(f"ALTER TABLE nights ADD COLUMN {column} VARCHAR")
    op.execute("ALTER TABLE series ALTER COLUMN arm DROP NOT NULL")


def downgrade() -> None:
    for column in ("label", "arm"):
        op.execute(f"ALTER TABLE nights DROP COLUMN {column}")
