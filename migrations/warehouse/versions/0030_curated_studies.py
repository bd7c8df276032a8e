"""What people added to studies, replicated from the app database."""

from __future__ import annotations

from alembic import op

revision = "warehouse_0030"
down_revision = "warehouse_0029"
branch_labels = None
depends_on = None

#: They read the table; the ingester creates them again.
_VIEWS = ("answers", "comparisons", "requests", "request_records", "valid_latest_runs", "results")


def upgrade() -> None:
    op.execute(
        "CREATE TABLE curated_studies (job_id VARCHAR NOT NULL, name VARCHAR, note VARCHAR NOT NULL, "
        "tags VARCHAR NOT NULL, hidden_at TIMESTAMPTZ, deleted_at TIMESTAMPTZ, "
        "called VARCHAR, purged_at TIMESTAMPTZ)"
    )


def downgrade() -> None:
    for view in _VIEWS:
        op.execute(f'DROP VIEW IF EXISTS "{view}"')
    op.execute("DROP TABLE curated_studies")
