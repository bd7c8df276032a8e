"""The load of programs other than ours during a run, and what held the processors back."""

from __future__ import annotations

from alembic import op

revision = "warehouse_0025"
down_revision = "warehouse_0024"
branch_labels = None
depends_on = None

_COLUMNS = {
    "run_metrics": {"other_cpu_percent": "DOUBLE"},
    "telemetry": {
        "other_cpu_percent": "DOUBLE",
        "run_queue": "INTEGER",
        "memory_pressure_percent": "DOUBLE",
        "cpu_mhz": "DOUBLE",
        "cpu_throttled_percent": "DOUBLE",
    },
}


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name, kind in columns.items():
            op.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')


def downgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name in columns:
            op.execute(f'ALTER TABLE "{table}" DROP COLUMN "{name}"')
