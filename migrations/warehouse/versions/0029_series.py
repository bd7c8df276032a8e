"""Series with their nights and alarms, replicated from the app database."""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "warehouse_0029"
down_revision = "warehouse_0028"
branch_labels = None
depends_on = None

#: The columns of each table in order, those of one type that follow each other in one line. `!` refuses null.
_TABLES = {
    "series": """
        VARCHAR!: series study arm schedule zone
        VARCHAR: engine
        INTEGER!: priority
        TIMESTAMPTZ!: added_at
        TIMESTAMPTZ: paused_at removed_at silenced_until
    """,
    "nights": """
        VARCHAR!: night_id series
        TIMESTAMPTZ!: due_at
        VARCHAR: again_of
        VARCHAR!: state
        VARCHAR: job_id note
        DOUBLE: speedup low high acceptance_length arm_tok_per_s baseline_tok_per_s
        VARCHAR: hardware engine_version speedup_finding
        DOUBLE: predicted_low predicted_high
        VARCHAR: acceptance_finding
    """,
    "alarms": """
        INTEGER!: alarm_id
        VARCHAR!: series night_id kind measure sentence
        TIMESTAMPTZ!: raised_at
        TIMESTAMPTZ: acknowledged_at
        VARCHAR: acknowledged_by acknowledgement
    """,
}


def upgrade() -> None:
    for name, lines in _TABLES.items():
        op.execute(f'CREATE TABLE "{name}" ({", ".join(_columns(lines))})')


def _columns(lines: str) -> Iterator[str]:
    for line in lines.strip().splitlines():
        kind, _, names = line.strip().partition(": ")
        for name in names.split():
            yield f'"{name}" {kind.removesuffix("!")}{" NOT NULL" * kind.endswith("!")}'


def downgrade() -> None:
    for name in _TABLES:
        op.execute(f'DROP TABLE "{name}"')
