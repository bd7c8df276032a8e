"""Runs have the tokens of a chunk, of the reasoning and of the answer.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0017"
down_revision = "warehouse_0016"
branch_labels = None
depends_on = None

_METRICS = ("reasoning_tokens_per_chunk", "answer_tokens_per_chunk")


def upgrade() -> None:
    for name in _METRICS:
        op.add_column("run_metrics", sa.Column(name, sa.Double))


def downgrade() -> None:
    for name in _METRICS:
        op.drop_column("run_metrics", name)
