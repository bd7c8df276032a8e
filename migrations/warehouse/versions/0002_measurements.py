"""What runs measured.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0002"
down_revision = "warehouse_0001"
branch_labels = None
depends_on = None

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def upgrade() -> None:
    _request_records()
    _telemetry()
    _histograms()
    _run_metrics()
    _rejected_bundles()


def downgrade() -> None:
    op.drop_table("rejected_bundles")
    op.drop_table("run_metrics")
    op.drop_table("histograms")
    op.drop_table("telemetry")
    op.drop_table("request_records")


def _request_records() -> None:
    op.create_table(
        "request_records",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("index", sa.Integer, nullable=False),
        sa.Column("prompt_id", sa.String, nullable=False),
        sa.Column("category", sa.String),
        sa.Column("prompt", sa.String, nullable=False),
        sa.Column("requested_output_tokens", sa.Integer, nullable=False),
        sa.Column("intended_send_s", sa.Double, nullable=False),
        sa.Column("sent_s", sa.Double),
        sa.Column("first_token_s", sa.Double),
        sa.Column("end_s", sa.Double),
        sa.Column("chunk_s", sa.ARRAY(sa.Double), nullable=False),
        sa.Column("chunk_tokens", sa.ARRAY(sa.Integer)),
        sa.Column("prompt_tokens", sa.Integer),
        sa.Column("completion_tokens", sa.Integer),
        sa.Column("finish_reason", sa.String),
        sa.Column("error", sa.String),
        sa.Column("output_text", sa.String, nullable=False),
        sa.Column("spec_drafts", sa.Integer),
        sa.Column("spec_draft_tokens", sa.Integer),
        sa.Column("spec_accepted_tokens", sa.Integer),
        sa.Column("is_completed", sa.Boolean, nullable=False),
        sa.Column("send_delay_ms", sa.Double),
        sa.Column("ttft_ms", sa.Double),
        sa.Column("ttft_from_intended_ms", sa.Double),
        sa.Column("tpot_ms", sa.Double),
        sa.Column("e2e_ms", sa.Double),
    )


def _telemetry() -> None:
    op.create_table(
        "telemetry",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("t_s", sa.Double, nullable=False),
        sa.Column("loop_lag_ms", sa.Double, nullable=False),
        sa.Column("requests_in_flight", sa.Integer, nullable=False),
        sa.Column("requests_done", sa.Integer, nullable=False),
        sa.Column("chunks_received", sa.Integer, nullable=False),
    )


def _histograms() -> None:
    op.create_table(
        "histograms",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
    )


def _run_metrics() -> None:
    op.create_table(
        "run_metrics",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("requests_completed", sa.BigInteger),
        sa.Column("requests_failed", sa.BigInteger),
        sa.Column("duration_s", sa.Double),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("output_tok_per_s", sa.Double),
        sa.Column("total_tok_per_s", sa.Double),
        sa.Column("request_per_s", sa.Double),
        sa.Column("goodput_request_per_s", sa.Double),
        sa.Column("num_drafts", sa.BigInteger),
        sa.Column("num_draft_tokens", sa.BigInteger),
        sa.Column("num_accepted_tokens", sa.BigInteger),
        sa.Column("acceptance_rate", sa.Double),
        sa.Column("acceptance_length", sa.Double),
        sa.Column("acceptance_per_position", sa.ARRAY(sa.Double)),
        sa.Column("prefix_cache_hit_rate", sa.Double),
        sa.Column("server_generation_tokens", sa.BigInteger),
        *(sa.Column(f"ttft_{name}_ms", sa.Double) for name in _STATISTICS),
        *(sa.Column(f"tpot_{name}_ms", sa.Double) for name in _STATISTICS),
        *(sa.Column(f"itl_{name}_ms", sa.Double) for name in _STATISTICS),
        *(sa.Column(f"icl_{name}_ms", sa.Double) for name in _STATISTICS),
        *(sa.Column(f"e2e_{name}_ms", sa.Double) for name in _STATISTICS),
    )


def _rejected_bundles() -> None:
    op.create_table(
        "rejected_bundles",
        sa.Column("path", sa.String, nullable=False),
        sa.Column("error", sa.String, nullable=False),
        sa.Column("rejected_at", sa.DateTime(timezone=True), nullable=False),
    )
