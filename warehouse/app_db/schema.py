"""What people and workers change: studies, jobs, prices, links, dashboards. In SQLite, or in PostgreSQL by URL."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A moment. Takes and gives datetimes in UTC that know it; SQLite keeps no time zone by itself."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: use datetime.now(UTC)")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


#: The app database. Its tables are made by migrations/app alone, never by create_all.
APP = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(column_0_label)s",
    }
)

JOB_STATES = ("queued", "running", "done", "failed", "cancelled")

studies = sa.Table(
    "studies",
    APP,
    sa.Column("study_id", sa.Text, primary_key=True),  # Study.digest(): the same study is stored once
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("toml", sa.Text, nullable=False),
    sa.Column("json", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

jobs = sa.Table(
    "jobs",
    APP,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("study_id", sa.Text, sa.ForeignKey("studies.study_id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("study_json", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # one of JOB_STATES
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),  # higher runs first
    sa.Column("submitted_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("worker", sa.Text),
    sa.Column("lease_expires_at", sa.Double),  # seconds since 1970 UTC
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),  # +1 at each retry a user asks for
    sa.Column("progress_json", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("hardware", sa.Text),  # in small letters: only workers with this in their hardware's name take it
    sa.Column("reuse_from_try", sa.Integer, nullable=False, server_default="0"),  # runs of earlier tries do not count
    sa.Index("ix_jobs_state_priority_submitted_at", "state", "priority", "submitted_at"),
)

job_events = sa.Table(
    "job_events",
    APP,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.job_id"), nullable=False, index=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
)

workers = sa.Table(
    "workers",
    APP,
    sa.Column("worker", sa.Text, primary_key=True),  # workers.worker.worker_name(): never the same twice
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("hardware", sa.Text, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("engines_json", sa.Text),  # what its engines can do; null until they were asked
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("last_seen", UtcDateTime, nullable=False),
    sa.Column("job_id", sa.Text),  # what it works on
)

prices = sa.Table(
    "prices",
    APP,
    sa.Column("price_id", sa.Integer, primary_key=True),  # later entries have higher ones
    sa.Column("hardware", sa.Text, nullable=False),
    sa.Column("valid_from", sa.Date, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("rented_per_hour", sa.Double),
    sa.Column("purchase_price", sa.Double),
    sa.Column("lifetime_years", sa.Double),
    sa.Column("utilisation", sa.Double),
    sa.Column("electricity_per_kwh", sa.Double),
    sa.Column("added_at", UtcDateTime, nullable=False),
    sa.Column("withdrawn_at", UtcDateTime),  # an entry made by mistake counts no longer; nothing is overwritten
)

kept_views = sa.Table(
    "kept_views",
    APP,
    sa.Column("view_id", sa.Text, primary_key=True),  # of the content: what is the same has the same link
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("state_json", sa.Text, nullable=False),
    sa.Column("kept_at", UtcDateTime, nullable=False),
)

named_views = sa.Table(
    "named_views",
    APP,
    sa.Column("page", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("view_id", sa.Text, sa.ForeignKey("kept_views.view_id"), nullable=False),
    sa.Column("named_at", UtcDateTime, nullable=False),
)

dashboards = sa.Table(
    "dashboards",
    APP,
    sa.Column("dashboard_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("removed_at", UtcDateTime),  # taken back by setting it to null: nothing is deleted
)

pins = sa.Table(
    "pins",
    APP,
    sa.Column("pin_id", sa.Text, primary_key=True),
    sa.Column("dashboard_id", sa.Text, sa.ForeignKey("dashboards.dashboard_id"), nullable=False, index=True),
    sa.Column("place", sa.Integer, nullable=False),  # lower ones stand first
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("parameters_json", sa.Text, nullable=False),  # of the page's link: each a list of values
    sa.Column("figure", sa.Text, nullable=False),  # which of the page's figures
    sa.Column("caption", sa.Text, nullable=False),
    sa.Column("as_of", UtcDateTime),  # null: as of now
    sa.Column("pinned_at", UtcDateTime, nullable=False),
    sa.Column("removed_at", UtcDateTime),
)
