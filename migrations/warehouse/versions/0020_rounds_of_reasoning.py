"""Requests have the rounds of their reasoning; runs the acceptance lengths of reasoning and answer, and the drafted
tokens that a grammar forbade.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0020"
down_revision = "warehouse_0019"
branch_labels = None
depends_on = None

_REQUESTS = ("reasoning_rounds", "reasoning_accepted_tokens")
_METRICS = ("reasoning_acceptance_length", "answer_acceptance_length")


def upgrade() -> None:
    for name in _REQUESTS:
        op.add_column("recent_requests", sa.Column(name, sa.Integer))
    for name in _METRICS:
        op.add_column("run_metrics", sa.Column(name, sa.Double))
    op.add_column("run_metrics", sa.Column("num_forbidden_draft_tokens", sa.BigInteger))


def downgrade() -> None:
    for name in _REQUESTS:
        op.drop_column("recent_requests", name)
    for name in (*_METRICS, "num_forbidden_draft_tokens"):
        op.drop_column("run_metrics", name)
