"""The view valid_latest_runs, which readers need from this revision on.

`drafthouse migrate` creates the views themselves. The revision changes no table: it makes readers refuse a warehouse
published without the view, naming that command, instead of failing on a missing name.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

revision = "warehouse_0009"
down_revision = "warehouse_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
