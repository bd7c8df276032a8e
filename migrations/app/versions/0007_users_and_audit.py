"""Users, how they come in, what each owns, and the audit table.

What was made before belongs to nobody.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0007"
down_revision = "app_0006"
branch_labels = None
depends_on = None

_OWNERS = (("jobs", "submitted_by"), ("job_events", "actor"), ("dashboards", "owner"), ("named_views", "owner"))


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "users",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password_hash", sa.Text),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("disabled_at", moment),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    for table, columns in (
        ("login_links", ()),
        ("sessions", (sa.Column("last_seen", moment, nullable=False),)),
    ):
        op.create_table(
            table,
            sa.Column("token_hash", sa.Text, nullable=False),
            sa.Column("name", sa.Text, sa.ForeignKey("users.name", name=f"fk_{table}_name"), nullable=False),
            sa.Column("created_at", moment, nullable=False),
            sa.Column("ends_at", moment, nullable=False),
            *columns,
            sa.PrimaryKeyConstraint("token_hash", name=f"pk_{table}"),
        )
        op.create_index(f"ix_{table}_name", table, ["name"])
    op.create_table(
        "login_failures",
        sa.Column("failure_id", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.PrimaryKeyConstraint("failure_id", name="pk_login_failures"),
    )
    op.create_index("ix_login_failures_key_at", "login_failures", ["key", "at"])
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Integer, nullable=False),
        sa.Column("at", moment, nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("actor", "role", "via", "action", "subject", "detail_json")
        ),
        sa.PrimaryKeyConstraint("audit_id", name="pk_audit"),
    )
    for table, column in _OWNERS:
        op.add_column(table, sa.Column(column, sa.Text))


def downgrade() -> None:
    for table, column in _OWNERS:
        op.drop_column(table, column)
    for table in ("audit", "login_failures", "sessions", "login_links", "users"):
        op.drop_table(table)
