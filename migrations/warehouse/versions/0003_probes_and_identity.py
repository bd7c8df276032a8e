"""What the probes saw of engine, host and GPUs, and which cell a run belongs to in every study.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0003"
down_revision = "warehouse_0002"
branch_labels = None
depends_on = None

_RUNS = (
    *(("cell_id", sa.String), ("arm_id", sa.String), ("workload_id", sa.String), ("load_id", sa.String)),
    *(("dataset_digest", sa.String), ("prompts_seed", sa.BigInteger)),
    *(
        ("workload", sa.String),
        ("input_tokens", sa.Integer),
        ("own_output_lengths", sa.Boolean),
        ("workload_json", sa.String),
    ),
    *(("arrivals", sa.String), ("load_json", sa.String)),
    *(("target_revision", sa.String), ("draft_path", sa.String), ("draft_digest", sa.String)),
    *(("draft_revision", sa.String), ("driver_version", sa.String), ("gpus", sa.ARRAY(sa.String))),
    *(("gpus_found_by", sa.String), ("settings_json", sa.String)),
)
_TELEMETRY = (
    *(("engine_running", sa.Integer), ("engine_waiting", sa.Integer), ("kv_cache_usage", sa.Double)),
    *(("host_cpu_percent", sa.Double), ("host_memory_used_bytes", sa.BigInteger)),
    *(("gpu_utilisation_percent", sa.Double), ("gpu_memory_used_bytes", sa.BigInteger), ("gpu_power_w", sa.Double)),
    *(("gpu_sm_clock_mhz", sa.Double), ("gpu_memory_clock_mhz", sa.Double), ("gpu_temperature_c", sa.Double)),
    ("gpu_throttle_reasons", sa.String),
)
_METRICS = (
    *(("energy_j", sa.Double), ("energy_j_per_output_token", sa.Double), ("gpu_power_mean_w", sa.Double)),
    *(("gpu_utilisation_mean_percent", sa.Double), ("gpu_memory_used_max_bytes", sa.BigInteger)),
    *(("gpu_sm_clock_mean_mhz", sa.Double), ("gpu_memory_clock_mean_mhz", sa.Double)),
    *(("gpu_temperature_mean_c", sa.Double), ("gpu_temperature_max_c", sa.Double), ("gpu_throttled_share", sa.Double)),
    *(("kv_cache_usage_max", sa.Double), ("engine_running_mean", sa.Double), ("engine_waiting_mean", sa.Double)),
    *(("engine_waiting_max", sa.BigInteger), ("host_cpu_mean_percent", sa.Double)),
    ("host_memory_used_max_bytes", sa.BigInteger),
)
_ADDED = {"runs": _RUNS, "telemetry": _TELEMETRY, "run_metrics": _METRICS, "jobs": (("hardware", sa.String),)}


def upgrade() -> None:
    """DuckDB changes no table that has an index, and gives no name again in the transaction that dropped it."""
    op.drop_index("ix_runs_run_id", "runs")
    for table, columns in _ADDED.items():
        for name, kind in columns:
            op.add_column(table, sa.Column(name, kind))
    op.create_index("ux_runs_run_id", "runs", ["run_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ux_runs_run_id", "runs")
    for table, columns in _ADDED.items():
        for name, _ in columns:
            op.drop_column(table, name)
    op.create_index("ix_runs_run_id", "runs", ["run_id"], unique=True)
