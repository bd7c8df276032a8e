"""A series watches one arm or all of its study, or what is imported; bisects find the version that made it worse.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0024"
down_revision = "app_0023"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("nights", sa.Column("arm", sa.Text))
    op.add_column("nights", sa.Column("label", sa.Text))
    op.execute("UPDATE nights SET arm = (SELECT series.arm FROM series WHERE series.series = nights.series)")
    # SQLite can make no column nullable, and cannot copy a table that others refer to.
    op.add_column("series", sa.Column("watched", sa.Text))
    op.execute("UPDATE series SET watched = arm")
    op.drop_column("series", "arm")
    op.execute("ALTER TABLE series RENAME COLUMN watched TO arm")
    op.create_table(
        "bisects",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("bisect_id", "series", "arm", "measure", "source")),
        sa.Column("versions_json", sa.Text, nullable=False),
        sa.Column("study_json", sa.Text, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("started_by", sa.Text, nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.Column("end_json", sa.Text),
        sa.PrimaryKeyConstraint("bisect_id", name="pk_bisects"),
        sa.ForeignKeyConstraint(["series"], ["series.series"], name="fk_bisects_series"),
    )
    op.create_table(
        "bisect_steps",
        sa.Column("bisect_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("job_id", sa.Text),
        sa.Column("note", sa.Text),
        sa.PrimaryKeyConstraint("bisect_id", "number", name="pk_bisect_steps"),
        sa.ForeignKeyConstraint(["bisect_id"], ["bisects.bisect_id"], name="fk_bisect_steps_bisect_id"),
    )


def downgrade() -> None:
    op.drop_table("bisect_steps")
    op.drop_table("bisects")
    for table, column in (("nights", "label"), ("nights", "arm")):
        op.drop_column(table, column)
