"""Which host claimed a job last, and what a worker host must know of all jobs without seeing them.

A view shows a role what its owner may see, and no more than its columns: counts of running jobs, and the last serial.
On SQLite drop the views before a batch operation on their tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0023"
down_revision = "app_0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("host", sa.Text))
    op.execute(
        "CREATE VIEW running_of_submitters AS SELECT submitted_by, count(*) AS count FROM jobs "
        "WHERE state = 'running' GROUP BY submitted_by"
    )
    op.execute("CREATE VIEW last_stored AS SELECT max(serial) AS serial FROM stored_objects")


def downgrade() -> None:
    op.execute("DROP VIEW last_stored")
    op.execute("DROP VIEW running_of_submitters")
    op.drop_column("jobs", "host")
