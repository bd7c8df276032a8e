"""Tables without indexes, so that adding a run writes that run and not a hundred thousand rows before it.

The ingester itself refuses a second run with the same run_id.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0013"
down_revision = "warehouse_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("only_runs_run_id", "runs")
    op.drop_index("by_prompt_latencies_run_id", "prompt_latencies")


def downgrade() -> None:
    op.create_index("by_prompt_latencies_run_id", "prompt_latencies", ["run_id"])
    op.create_index("only_runs_run_id", "runs", ["run_id"], unique=True)
