"""When and from where users came in, and who saved a page's state.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0015"
down_revision = "app_0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.add_column("users", sa.Column("came_in_at", moment))
    op.execute(
        "UPDATE users SET came_in_at = (SELECT max(audit.at) FROM audit WHERE audit.action = 'session.begin' "
        "AND audit.subject = users.name)"
    )
    op.create_table(
        "login_addresses",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("came_in_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("name", "address", name="pk_login_addresses"),
        sa.ForeignKeyConstraint(["name"], ["users.name"], name="fk_login_addresses_name"),
    )
    op.add_column("kept_views", sa.Column("owner", sa.Text))
    op.add_column("kept_views", sa.Column("used_at", moment))
    op.create_index("ix_kept_views_owner_kept_at", "kept_views", ["owner", "kept_at"])
    op.create_index("ix_kept_views_kept_at", "kept_views", ["kept_at"])
    op.create_index("ix_audit_actor_at", "audit", ["actor", "at"])


def downgrade() -> None:
    op.drop_index("ix_audit_actor_at", "audit")
    op.drop_index("ix_kept_views_kept_at", "kept_views")
    op.drop_index("ix_kept_views_owner_kept_at", "kept_views")
    op.drop_column("kept_views", "used_at")
    op.drop_column("kept_views", "owner")
    op.drop_table("login_addresses")
    op.drop_column("users", "came_in_at")
