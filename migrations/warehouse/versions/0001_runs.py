"""Runs, and what people see of the queue.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _studies()
    _jobs()
    _runs()
    op.create_index("ix_runs_run_id", "runs", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_runs_run_id", "runs")
    op.drop_table("runs")
    op.drop_table("jobs")
    op.drop_table("studies")


def _studies() -> None:
    op.create_table(
        "studies",
        sa.Column("study_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("toml", sa.String, nullable=False),
        sa.Column("json", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("study_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("worker", sa.String),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("error", sa.String),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("cell_key", sa.String, nullable=False),
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("study_id", sa.String, nullable=False),
        sa.Column("study_name", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("arm", sa.String, nullable=False),
        sa.Column("is_baseline", sa.Boolean, nullable=False),
        sa.Column("method", sa.String, nullable=False),
        sa.Column("draft_model", sa.String),
        sa.Column("num_speculative_tokens", sa.Integer),
        sa.Column("arm_json", sa.String, nullable=False),
        sa.Column("dataset", sa.String, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("requested_output_tokens", sa.Integer, nullable=False),
        sa.Column("ignore_eos", sa.Boolean, nullable=False),
        sa.Column("pattern", sa.String, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("num_prompts", sa.Integer, nullable=False),
        sa.Column("request_rate_rps", sa.Double),
        sa.Column("burstiness", sa.Double, nullable=False),
        sa.Column("endpoint", sa.String, nullable=False),
        sa.Column("temperature", sa.Double, nullable=False),
        sa.Column("top_p", sa.Double, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("slo_json", sa.String, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("launch_index", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("error", sa.String),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("window_s", sa.Double),
        sa.Column("warmup_requests", sa.Integer, nullable=False),
        sa.Column("warmup_s", sa.Double),
        sa.Column("idle_before_s", sa.Double),
        sa.Column("counters_before_json", sa.String),
        sa.Column("counters_after_json", sa.String),
        sa.Column("loop_lag_p99_ms", sa.Double),
        sa.Column("loop_lag_max_ms", sa.Double),
        sa.Column("late_send_max_ms", sa.Double),
        sa.Column("client_cpu_s", sa.Double),
        sa.Column("hardware", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("cpu_count", sa.Integer, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("os", sa.String, nullable=False),
        sa.Column("python_version", sa.String, nullable=False),
        sa.Column("drafthouse_revision", sa.String),
        sa.Column("engine", sa.String, nullable=False),
        sa.Column("engine_version", sa.String),
        sa.Column("command_json", sa.String, nullable=False),
        sa.Column("environment_json", sa.String, nullable=False),
        sa.Column("effective_config_json", sa.String, nullable=False),
        sa.Column("target_path", sa.String, nullable=False),
        sa.Column("target_digest", sa.String),
        sa.Column("engine_start_s", sa.Double),
        sa.Column("format_version", sa.Integer, nullable=False),
    )
