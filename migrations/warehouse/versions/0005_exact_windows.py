"""Where a window lies in the engine's log, who else is on the GPUs, prompts as sent, throughput without the tail.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0005"
down_revision = "warehouse_0004"
branch_labels = None
depends_on = None

_ADDED = {
    "runs": (("log_begin_bytes", sa.BigInteger), ("log_end_bytes", sa.BigInteger)),
    "telemetry": (("gpu_other_processes", sa.Integer),),
    "request_records": (("sent_prompt_tokens", sa.Integer),),
    "run_metrics": (("steady_window_s", sa.Double), ("steady_output_tok_per_s", sa.Double)),
}


def upgrade() -> None:
    """DuckDB changes no table that has an index, and gives no name again in the transaction that dropped it."""
    op.drop_index("ux_runs_run_id", "runs")
    for table, columns in _ADDED.items():
        for name, kind in columns:
            op.add_column(table, sa.Column(name, kind))
    op.create_index("only_one_runs_run_id", "runs", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("only_one_runs_run_id", "runs")
    for table, columns in _ADDED.items():
        for name, _ in columns:
            op.drop_column(table, name)
    op.create_index("ux_runs_run_id", "runs", ["run_id"], unique=True)
