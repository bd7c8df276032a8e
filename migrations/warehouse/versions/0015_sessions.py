"""Sessions: the turn of each request, and the numbers of a run by turn and by length of context.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0015"
down_revision = "warehouse_0014"
branch_labels = None
depends_on = None

_STATISTICS = tuple(
    f"{latency}_{statistic}_ms"
    for latency in ("ttft", "tpot", "e2e")
    for statistic in ("mean", "p50", "p90", "p95", "p99")
)


def upgrade() -> None:
    op.add_column("runs", sa.Column("session_answers", sa.Text))
    op.add_column("recent_requests", sa.Column("session_id", sa.Text))
    op.add_column("recent_requests", sa.Column("turn", sa.Integer))
    op.add_column("recent_requests", sa.Column("context_tokens", sa.Integer))
    op.create_table(
        "request_groups",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("grain", sa.Text, nullable=False),
        sa.Column("turn", sa.Integer),
        sa.Column("context_tokens", sa.Integer),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("prompt_tokens_mean", sa.Double),
        *(sa.Column(name, sa.Double) for name in _STATISTICS),
        *(sa.Column(name, sa.BigInteger) for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens")),
        sa.Column("acceptance_rate", sa.Double),
        sa.Column("acceptance_length", sa.Double),
    )


def downgrade() -> None:
    op.drop_table("request_groups")
    for name in ("context_tokens", "turn", "session_id"):
        op.drop_column("recent_requests", name)
    op.drop_column("runs", "session_answers")
