"""The latencies of a run's prompts in one row, so that a comparison reads as many rows as there are runs.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0006"
down_revision = "warehouse_0005"
branch_labels = None
depends_on = None

_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
_MEANS = ", ".join(f"avg({name}) AS {name}" for name in _LATENCIES)
_LISTS = ", ".join(f"list({name} ORDER BY place) AS {name}" for name in _LATENCIES)
_LISTED = f"""
    CREATE TEMP TABLE listed AS
    WITH of_prompt AS (
        SELECT run_id, prompt_id, min("index") AS place, {_MEANS}
        FROM request_records WHERE is_completed GROUP BY run_id, prompt_id
    ), of_run AS (
        SELECT run_id, list(prompt_id ORDER BY place) AS prompt_ids, {_LISTS}
        FROM of_prompt GROUP BY run_id
    )
    SELECT *, sha256(array_to_string(prompt_ids, chr(10))) AS prompts_id FROM of_run
"""  # noqa: S608 - no user's text is in it
_FILL = (
    _LISTED,
    "INSERT INTO prompt_latencies BY NAME SELECT * EXCLUDE (prompt_ids) FROM listed ORDER BY run_id",
    "INSERT INTO prompt_lists SELECT prompts_id, any_value(prompt_ids) FROM listed GROUP BY prompts_id",
    "DROP TABLE listed",
)


def upgrade() -> None:
    op.create_table(
        "prompt_latencies",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("prompts_id", sa.String, nullable=False),
        *(sa.Column(name, sa.ARRAY(sa.Double), nullable=False) for name in _LATENCIES),
    )
    op.create_table(
        "prompt_lists",
        sa.Column("prompts_id", sa.String, nullable=False),
        sa.Column("prompt_ids", sa.ARRAY(sa.String), nullable=False),
    )
    for sql in _FILL:
        op.execute(sql)


def downgrade() -> None:
    for table in ("prompt_lists", "prompt_latencies"):
        op.drop_table(table)
