"""Verdicts as they were computed when their study ended, and what they rest on.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "warehouse_0023"
down_revision = "warehouse_0022"
branch_labels = None
depends_on = None

#: The columns of each table in order, those of one type that follow each other in one line. `!` refuses null.
_TABLES = {
    "judgements": """
        VARCHAR!: judgement_id job_id study cause
        INTEGER: tries
        TIMESTAMPTZ!: as_of judged_at
        INTEGER!: analysis_version
        VARCHAR[]!: run_ids
        VARCHAR!: arms_json
    """,
    "judged_metrics": """
        VARCHAR!: judgement_id metric unit baseline
        VARCHAR[]!: history_jobs
        VARCHAR!: answer_json
    """,
    "judged_arms": """
        VARCHAR!: judgement_id metric scope arm
        VARCHAR: workload load
        INTEGER: concurrency
        VARCHAR!: reading
        DOUBLE: ratio low high
        VARCHAR!: verdict basis
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
        op.drop_table(name)
