"""Whether figures of runs and of whole studies can be believed, and the price book.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0004"
down_revision = "warehouse_0003"
branch_labels = None
depends_on = None

_PRICES = (
    *(("price_id", sa.Integer, False), ("hardware", sa.String, False), ("valid_from", sa.Date, False)),
    *(("currency", sa.String, False), ("source", sa.String, False), ("rented_per_hour", sa.Double, True)),
    *(("purchase_price", sa.Double, True), ("lifetime_years", sa.Double, True), ("utilisation", sa.Double, True)),
    *(("electricity_per_kwh", sa.Double, True), ("added_at", sa.DateTime(timezone=True), False)),
    ("withdrawn_at", sa.DateTime(timezone=True), True),
)


def upgrade() -> None:
    op.create_table("prices", *(sa.Column(name, kind, nullable=nullable) for name, kind, nullable in _PRICES))
    op.create_table(
        "verdicts",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("is_valid", sa.Boolean, nullable=False),
        sa.Column("why_invalid", sa.ARRAY(sa.String), nullable=False),
        sa.Column("unjudged_checks", sa.ARRAY(sa.String), nullable=False),
    )
    op.create_table(
        "findings",
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("run_id", "check_name", "severity", "sentence", "advice")
        ),
    )
    op.create_table(
        "study_verdicts",
        sa.Column("job_id", sa.String, nullable=False),
        sa.Column("runs_judged", sa.Integer, nullable=False),
        sa.Column("unjudged_checks", sa.ARRAY(sa.String), nullable=False),
    )
    op.create_table(
        "study_findings",
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("job_id", "check_name", "severity", "sentence", "advice")
        ),
        sa.Column("run_ids", sa.ARRAY(sa.String), nullable=False),
    )


def downgrade() -> None:
    for table in ("study_findings", "study_verdicts", "findings", "verdicts", "prices"):
        op.drop_table(table)
