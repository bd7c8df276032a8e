"""A fleet of hosts: those that are set aside, their clocks, their draining, and which engines a job needs.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "app_0017"
down_revision = "app_0016"
branch_labels = None
depends_on = None

_JOBS = sa.table("jobs", sa.column("job_id"), sa.column("study_json"), sa.column("needs"))


def upgrade() -> None:
    op.create_table(
        "hosts",
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("set_aside_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("host", name="pk_hosts"),
    )
    op.add_column("workers", sa.Column("queue", sa.Text))
    op.add_column("workers", sa.Column("drains", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("workers", sa.Column("clock_behind_s", sa.Double))
    op.add_column("jobs", sa.Column("needs", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("jobs", sa.Column("lease", sa.Integer, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("clock_behind_s", sa.Double))
    columns = ("submitted_by", sa.text("priority DESC"), "submitted_at", "job_id")
    queued = sa.text("state = 'queued'")
    op.create_index("ix_jobs_queued", "jobs", columns, postgresql_where=queued, sqlite_where=queued)
    connection = op.get_bind()
    for job_id, study_json in connection.execute(sa.select(_JOBS.c.job_id, _JOBS.c.study_json)).all():
        connection.execute(_JOBS.update().where(_JOBS.c.job_id == job_id).values(needs=_needs(study_json)))


def _needs(study_json: str) -> str:
    try:
        engines = {str(arm["engine"]) for arm in json.loads(study_json)["arms"]}
    except (ValueError, LookupError, TypeError):  # whoever claims it sets it aside
        engines = set()
    return "".join(f"/{engine.translate(str.maketrans('/ ', '||'))}/" for engine in sorted(engines))


def downgrade() -> None:
    op.drop_index("ix_jobs_queued", "jobs")
    for name in ("clock_behind_s", "lease", "needs"):
        op.drop_column("jobs", name)
    for name in ("clock_behind_s", "drains", "queue"):
        op.drop_column("workers", name)
    op.drop_table("hosts")
