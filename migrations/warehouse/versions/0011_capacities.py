"""Searches for capacities: their trials among the runs, what those gave, and the capacities found.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0011"
down_revision = "warehouse_0010"
branch_labels = None
depends_on = None

_RUNS = ("search", "trial_number", "ended_early")
_METRICS = ("requests_within_slo", "goodput_tok_per_s")


def upgrade() -> None:
    op.drop_index("once_runs_run_id", "runs")
    op.add_column("runs", sa.Column("search", sa.Text))
    op.add_column("runs", sa.Column("trial_number", sa.Integer))
    op.add_column("runs", sa.Column("ended_early", sa.Text))
    op.create_index("single_runs_run_id", "runs", ["run_id"], unique=True)
    op.add_column("run_metrics", sa.Column("requests_within_slo", sa.BigInteger))
    op.add_column("run_metrics", sa.Column("goodput_tok_per_s", sa.Double))
    op.create_table(
        "capacities",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("is_baseline", sa.Boolean, nullable=False),
        sa.Column("method", sa.Text),
        sa.Column("num_speculative_tokens", sa.Integer),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("pattern", sa.Text, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("find", sa.Text, nullable=False),
        sa.Column("slo_share", sa.Double, nullable=False),
        sa.Column("repeat", sa.Integer),
        sa.Column("capacity", sa.Double),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("goodput_tok_per_s", sa.Double),
    )


def downgrade() -> None:
    op.drop_table("capacities")
    for name in _METRICS:
        op.drop_column("run_metrics", name)
    op.drop_index("single_runs_run_id", "runs")
    for name in _RUNS:
        op.drop_column("runs", name)
    op.create_index("once_runs_run_id", "runs", ["run_id"], unique=True)
