"""Runs that were imported from other tools' files, and figures that others published.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0007"
down_revision = "warehouse_0006"
branch_labels = None
depends_on = None

_ADDED = ("tool", "tool_version", "source_sha256", "labels_json")
#: What a file of another tool may not tell.
_MAY_BE_UNKNOWN = {
    "runs": (
        *("target", "is_baseline", "method", "arm_json", "dataset", "category", "requested_output_tokens"),
        *("ignore_eos", "pattern", "concurrency", "num_prompts", "burstiness", "endpoint", "temperature", "top_p"),
        *("seed", "slo_json", "repeat", "launch_index", "attempt", "started_at", "warmup_requests", "hardware"),
        *("host", "cpu_count", "memory_bytes", "os", "python_version", "engine", "command_json"),
        *("environment_json", "effective_config_json", "target_path"),
    ),
    "request_records": (
        *("prompt_id", "prompt", "requested_output_tokens", "intended_send_s", "chunk_s", "output_text"),
    ),
}


def upgrade() -> None:
    """DuckDB changes no table that has an index, gives no name again in the transaction that dropped it, adds no
    column that must have a value, and makes no index after an UPDATE: so the new column has a default for a moment.
    """
    op.drop_index("only_one_runs_run_id", "runs")
    op.execute("ALTER TABLE runs ADD COLUMN origin VARCHAR DEFAULT 'measured'")
    op.execute("ALTER TABLE runs ALTER COLUMN origin DROP DEFAULT")
    op.execute("ALTER TABLE runs ALTER COLUMN origin SET NOT NULL")
    for name in _ADDED:
        op.add_column("runs", sa.Column(name, sa.String))
    for table, columns in _MAY_BE_UNKNOWN.items():
        for name in columns:
            op.execute(f'ALTER TABLE {table} ALTER COLUMN "{name}" DROP NOT NULL')
    op.create_index("each_once_runs_run_id", "runs", ["run_id"], unique=True)
    op.create_table(
        "imported_figures",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("field", sa.String, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("left_out", sa.String),
    )
    _published()


def _published() -> None:
    figure = (
        *((name, sa.String, False) for name in ("source", "study", "hardware", "engine")),
        *(("engine_version", sa.String, True), ("target", sa.String, False), ("method", sa.String, False)),
        *(("draft_model", sa.String, True), ("num_speculative_tokens", sa.Integer, True)),
        *(("dataset", sa.String, False), ("access_pattern", sa.String, False), ("load", sa.String, True)),
        *(("metric", sa.String, False), ("printed", sa.String, False), ("value", sa.Double, False)),
        *(("unit", sa.String, False), ("scale", sa.String, False), ("ratio_to_baseline", sa.Double, True)),
        *(("price_usd_per_hour", sa.Double, True), ("note", sa.String, True), ("run_id", sa.String, True)),
    )
    run = (
        *((name, sa.String, False) for name in ("run_id", "cell_key", "job_id", "study_id", "study_name")),
        *(("target", sa.String, True), ("arm", sa.String, False), ("method", sa.String, True)),
        *(("draft_model", sa.String, True), ("num_speculative_tokens", sa.Integer, True)),
        *((name, sa.String, True) for name in ("workload", "dataset", "pattern")),
        *(("concurrency", sa.Integer, True), ("status", sa.String, False), ("error", sa.String, True)),
        *((name, sa.String, True) for name in ("hardware", "engine", "engine_version")),
        ("origin", sa.String, False),
        *((name, sa.Double, True) for name in ("duration_s", "output_tok_per_s", "total_tok_per_s")),
        *(("acceptance_rate", sa.Double, True), ("acceptance_length", sa.Double, True)),
        *(("acceptance_per_position", sa.ARRAY(sa.Double), True), ("ttft_mean_ms", sa.Double, True)),
        ("tpot_mean_ms", sa.Double, True),
    )
    source = tuple((name, sa.String, name == "preset") for name in ("source", "date", "title", "method", "preset"))
    doubt = (
        *((name, sa.String, False) for name in ("check_name", "source", "sentence")),
        *(("numbers", sa.ARRAY(sa.Integer), False), ("run_ids", sa.ARRAY(sa.String), False)),
    )
    tables: dict[str, tuple[tuple[str, Any, bool], ...]] = {
        "sources": source,
        "results": (("number", sa.Integer, False), *figure),
        "runs": run,
        "doubts": doubt,
    }
    for table, columns in tables.items():
        op.create_table(f"published_{table}", *(sa.Column(name, kind, nullable=can) for name, kind, can in columns))


def downgrade() -> None:
    """Rows that were imported have no place in the tables of before."""
    for table in ("doubts", "runs", "results", "sources"):
        op.drop_table(f"published_{table}")
    op.drop_table("imported_figures")
    op.drop_index("each_once_runs_run_id", "runs")
    for table in ("request_records", "prompt_latencies", "run_metrics", "verdicts", "findings", "histograms", "runs"):
        op.execute(f"DELETE FROM {table} WHERE run_id IN (SELECT run_id FROM runs WHERE origin <> 'measured')")  # noqa: S608
    for name in ("origin", *_ADDED):
        op.drop_column("runs", name)
    for table, columns in _MAY_BE_UNKNOWN.items():
        for name in columns:
            op.execute(f'ALTER TABLE {table} ALTER COLUMN "{name}" SET NOT NULL')
    op.create_index("only_one_runs_run_id", "runs", ["run_id"], unique=True)
