"""Requests have a histogram of rounds, reasoning apart from the answer, and a score; runs have figures of them.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0016"
down_revision = "warehouse_0015"
branch_labels = None
depends_on = None

_LISTS = ("rounds_drafted", "rounds_accepted", "rounds_count")
_REQUESTS: tuple[tuple[str, Any], ...] = (
    *((name, sa.ARRAY(sa.Integer)) for name in _LISTS),
    ("reasoning_tokens", sa.Integer),
    ("reasoning_chars", sa.Integer),
    ("first_answer_s", sa.Double),
    ("expected", sa.Text),
    ("score", sa.Double),
)
_METRICS: tuple[tuple[str, Any], ...] = (
    ("draft_length_mean", sa.Double),
    ("num_verified_tokens", sa.BigInteger),
    ("num_wasted_tokens", sa.BigInteger),
    ("wasted_share", sa.Double),
    ("rounds_by_draft_length", sa.ARRAY(sa.Double)),
    ("acceptance_of_drafted_position", sa.ARRAY(sa.Double)),
    ("reasoning_tokens", sa.BigInteger),
    ("answer_tokens", sa.BigInteger),
    ("answer_tok_per_s", sa.Double),
    ("ttfa_p50_ms", sa.Double),
    ("ttfa_p95_ms", sa.Double),
    ("requests_scored", sa.BigInteger),
    ("task_score", sa.Double),
)


def upgrade() -> None:
    op.add_column("runs", sa.Column("score", sa.Text))
    for name, kind in _REQUESTS:
        op.add_column("recent_requests", sa.Column(name, kind))
    for name, kind in _METRICS:
        op.add_column("run_metrics", sa.Column(name, kind))


def downgrade() -> None:
    op.drop_column("runs", "score")
    for name, _ in _REQUESTS:
        op.drop_column("recent_requests", name)
    for name, _ in _METRICS:
        op.drop_column("run_metrics", name)
