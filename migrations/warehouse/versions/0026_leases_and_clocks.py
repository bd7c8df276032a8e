"""The lease that a run was measured under, and how far the clock of its machine was off.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0026"
down_revision = "warehouse_0025"
branch_labels = None
depends_on = None

_COLUMNS = {"lease": "INTEGER", "clock_behind_s": "DOUBLE"}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.execute(f'ALTER TABLE "runs" ADD COLUMN "{name}" {kind}')


def downgrade() -> None:
    for name in _COLUMNS:
        op.execute(f'ALTER TABLE "runs" DROP COLUMN "{name}"')
