"""What other processes of Drafthouse did on the machine during a run's window.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0012"
down_revision = "warehouse_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """DuckDB changes no table that has an index, and gives no name again in the transaction that dropped it."""
    op.drop_index("single_runs_run_id", "runs")
    op.add_column("runs", sa.Column("beside_json", sa.Text))
    op.create_index("only_runs_run_id", "runs", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("only_runs_run_id", "runs")
    op.drop_column("runs", "beside_json")
    op.create_index("single_runs_run_id", "runs", ["run_id"], unique=True)
