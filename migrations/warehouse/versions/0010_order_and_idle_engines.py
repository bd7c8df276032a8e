"""The order of a study's runs, the engines that were up beside the measured one, and whether it measures until decided.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0010"
down_revision = "warehouse_0009"
branch_labels = None
depends_on = None

_ADDED = (
    ("arm_order", sa.Text),
    ("idle_engines", sa.Integer),
    ("idle_engine_cpu_percent", sa.Double),
    ("idle_engine_gpu_percent", sa.Double),
    ("until_decided", sa.Boolean),
)


def upgrade() -> None:
    """DuckDB changes no table that has an index, and gives no name again in the transaction that dropped it."""
    op.drop_index("each_once_runs_run_id", "runs")
    for name, kind in _ADDED:
        op.add_column("runs", sa.Column(name, kind))
    op.create_index("once_runs_run_id", "runs", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("once_runs_run_id", "runs")
    for name, _ in _ADDED:
        op.drop_column("runs", name)
    op.create_index("each_once_runs_run_id", "runs", ["run_id"], unique=True)
