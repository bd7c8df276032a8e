"""The tables of the first release.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "app_0016"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = (
    *("studies", "jobs", "job_events", "job_blocks", "workers", "prices", "kept_views", "named_views", "dashboards"),
    *("pins", "users", "login_links", "sessions", "api_tokens", "shared_links", "login_failures", "login_addresses"),
    "audit",
)


def upgrade() -> None:
    _jobs()
    _workers_and_prices()
    _saved_views()
    _dashboards()
    _users()
    _tokens()
    _audit()


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _integers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _doubles(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Double) for name in names]


def _moments(*names: str, nullable: bool = False) -> list[sa.Column[datetime]]:
    return [sa.Column(name, sa.DateTime(timezone=True), nullable=nullable) for name in names]


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.{column}"], name=f"fk_{table}_{column}")


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _jobs() -> None:
    op.create_table(
        "studies",
        *_texts("study_id", "name", "toml", "json"),
        *_moments("created_at"),
        _key("studies", "study_id"),
    )
    op.create_table(
        "jobs",
        *_texts("job_id", "study_id", "name", "study_json", "state"),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        *_moments("submitted_at"),
        *_moments("started_at", "finished_at", nullable=True),
        *_texts("worker", nullable=True),
        *_doubles("lease_expires_at"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        *_texts("progress_json", "error", nullable=True),
        sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
        *_texts("hardware", nullable=True),
        sa.Column("reuse_from_try", sa.Integer, nullable=False, server_default="0"),
        *_texts("submitted_by", nullable=True),
        _key("jobs", "job_id"),
        _reference("jobs", "study_id", "studies"),
    )
    _index("jobs", "state", "priority", "submitted_at")
    _index("jobs", "submitted_at", "job_id")
    _index("jobs", "finished_at", "job_id")
    op.create_table(
        "job_events",
        *_integers("id"),
        *_texts("job_id"),
        *_moments("at"),
        *_texts("kind", "detail"),
        *_texts("actor", nullable=True),
        _key("job_events", "id"),
        _reference("job_events", "job_id", "jobs"),
    )
    _index("job_events", "job_id")
    op.create_table(
        "job_blocks",
        *_texts("job_id"),
        *_integers("attempt", "block"),
        *_texts("worker"),
        sa.Column("lease_expires_at", sa.Double, nullable=False),
        sa.Column("is_done", sa.Boolean, nullable=False),
        *_texts("content", nullable=True),
        _key("job_blocks", "job_id", "attempt", "block"),
        _reference("job_blocks", "job_id", "jobs"),
    )


def _workers_and_prices() -> None:
    op.create_table(
        "workers",
        *_texts("worker", "host", "hardware"),
        *_integers("gpus"),
        *_texts("engines_json", nullable=True),
        *_moments("started_at", "last_seen"),
        *_texts("job_id", "slot", "waits_for", nullable=True),
        _key("workers", "worker"),
    )
    op.create_table(
        "prices",
        *_integers("price_id"),
        *_texts("hardware"),
        sa.Column("valid_from", sa.Date, nullable=False),
        *_texts("currency", "source"),
        *_doubles("rented_per_hour", "purchase_price", "lifetime_years", "utilisation", "electricity_per_kwh"),
        *_moments("added_at"),
        *_moments("withdrawn_at", nullable=True),
        _key("prices", "price_id"),
    )


def _saved_views() -> None:
    op.create_table(
        "kept_views",
        *_texts("view_id", "page", "state_json"),
        *_moments("kept_at"),
        *_texts("owner", nullable=True),
        *_moments("used_at", nullable=True),
        _key("kept_views", "view_id"),
    )
    _index("kept_views", "owner", "kept_at")
    _index("kept_views", "kept_at")
    op.create_table(
        "named_views",
        *_texts("page", "name", "view_id"),
        *_moments("named_at"),
        *_texts("owner", nullable=True),
        _key("named_views", "page", "name"),
        _reference("named_views", "view_id", "kept_views"),
    )


def _dashboards() -> None:
    op.create_table(
        "dashboards",
        *_texts("dashboard_id", "name"),
        *_moments("created_at", "changed_at"),
        *_moments("removed_at", nullable=True),
        *_texts("owner", nullable=True),
        _key("dashboards", "dashboard_id"),
    )
    op.create_table(
        "pins",
        *_texts("pin_id", "dashboard_id"),
        *_integers("place"),
        *_texts("page", "parameters_json", "figure", "caption"),
        *_moments("as_of", nullable=True),
        *_moments("pinned_at"),
        *_moments("removed_at", nullable=True),
        sa.Column("is_wide", sa.Boolean),
        _key("pins", "pin_id"),
        _reference("pins", "dashboard_id", "dashboards"),
    )
    _index("pins", "dashboard_id")


def _users() -> None:
    op.create_table(
        "users",
        *_texts("name", "role"),
        *_texts("password_hash", nullable=True),
        *_moments("created_at"),
        *_moments("disabled_at", "came_in_at", nullable=True),
        _key("users", "name"),
    )
    op.create_table(
        "login_failures",
        *_integers("failure_id"),
        *_texts("key"),
        *_moments("at"),
        _key("login_failures", "failure_id"),
    )
    _index("login_failures", "key", "at")
    op.create_table(
        "login_addresses",
        *_texts("name", "address"),
        *_moments("came_in_at"),
        _key("login_addresses", "name", "address"),
        _reference("login_addresses", "name", "users"),
    )


def _tokens() -> None:
    for table in ("login_links", "sessions"):
        op.create_table(
            table,
            *_texts("token_hash", "name"),
            *_moments("created_at", "ends_at"),
            *(_moments("last_seen") if table == "sessions" else ()),
            _key(table, "token_hash"),
            _reference(table, "name", "users"),
        )
        _index(table, "name")
    op.create_table(
        "api_tokens",
        *_texts("token_id", "token_hash", "name", "label", "role"),
        *_moments("created_at", "ends_at"),
        *_moments("last_used_at", "revoked_at", nullable=True),
        _key("api_tokens", "token_id"),
        sa.UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
        _reference("api_tokens", "name", "users"),
    )
    _index("api_tokens", "name")
    op.create_table(
        "shared_links",
        *_texts("link_id", "token_hash", "owner", "kind", "subject", "title"),
        *_moments("created_at", "ends_at"),
        *_moments("last_used_at", "revoked_at", nullable=True),
        _key("shared_links", "link_id"),
        sa.UniqueConstraint("token_hash", name="uq_shared_links_token_hash"),
    )
    _index("shared_links", "owner")


def _audit() -> None:
    op.create_table(
        "audit",
        *_integers("audit_id"),
        *_moments("at"),
        *_texts("actor", "role", "via", "action", "subject", "detail_json"),
        _key("audit", "audit_id"),
    )
    _index("audit", "actor", "at")


def downgrade() -> None:
    for table in reversed(_TABLES):
        op.drop_table(table)
