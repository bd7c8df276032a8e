"""The tables of the app database, in SQLite or PostgreSQL.

The `doc` of a column of studies, jobs, curated studies, prices and series is its comment in the warehouse's replica of
the table, too.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A point in time as an aware datetime in UTC. SQLite stores no time zone, so it is removed and added again."""

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
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(column_0_label)s",
    }
)

studies = sa.Table(
    "studies",
    APP,
    sa.Column("study_id", sa.Text, primary_key=True, doc="SHA-256 of the study's content"),
    sa.Column("name", sa.Text, nullable=False, doc="its first name"),
    sa.Column("toml", sa.Text, nullable=False, doc="the study as TOML"),
    sa.Column("json", sa.Text, nullable=False, doc="the study as JSON"),
    sa.Column("created_at", UtcDateTime, nullable=False, doc="when it was first submitted"),
)

jobs = sa.Table(
    "jobs",
    APP,
    sa.Column("job_id", sa.Text, primary_key=True, doc="identifies the job"),
    sa.Column("study_id", sa.Text, sa.ForeignKey("studies.study_id"), nullable=False, doc="the study it runs"),
    sa.Column("name", sa.Text, nullable=False, doc="the study's name"),
    sa.Column("study_json", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, doc="queued, running, done, failed or cancelled"),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0", doc="jobs of higher priority run first"),
    sa.Column("submitted_at", UtcDateTime, nullable=False, doc="when it was submitted"),
    sa.Column("started_at", UtcDateTime, doc="when a worker first claimed it"),
    sa.Column("finished_at", UtcDateTime, doc="when it was done, failed or cancelled"),
    sa.Column("worker", sa.Text, doc="the worker that runs or ran it"),
    sa.Column("lease_expires_at", sa.Double),  # seconds since 1970 UTC
    sa.Column("tries", sa.Integer, nullable=False, server_default="0", doc="how often it was retried"),
    sa.Column("progress_json", sa.Text),
    sa.Column("error", sa.Text, doc="why it failed"),
    sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column(
        "hardware",
        sa.Text,
        doc="only workers whose hardware contains it may run it",
    ),
    sa.Column("reuse_from_try", sa.Integer, nullable=False, server_default="0"),  # runs of earlier tries do not count
    sa.Column("submitted_by", sa.Text),  # its owner; null: nobody that is known
    sa.Column("needs", sa.Text, nullable=False, server_default=sa.text("''")),  # engines, by jobs.fleet.needs
    sa.Column("lease", sa.Integer, nullable=False, server_default="0"),  # how often it was claimed: the lease's number
    sa.Column("clock_behind_s", sa.Double),  # the database's time minus its worker's, at the last claim
    sa.Column("host", sa.Text),  # that claimed it last, by which PostgreSQL decides what a host may see and change
    sa.Column("over_hosts", sa.Boolean, nullable=False, server_default=sa.false()),  # other hosts may take its blocks
    sa.Index("ix_jobs_state_submitted_at_job_id", "state", "submitted_at", "job_id"),
    # A list of jobs is filtered in this index alone: rows are wide.
    sa.Index("ix_jobs_listed", "submitted_at", "job_id", "state", "name", "submitted_by"),
    sa.Index("ix_jobs_finished_at_job_id", "finished_at", "job_id"),
)
_QUEUED = jobs.c.state == sa.literal_column("'queued'")
#: The queued jobs of each submitter in the order in which they are taken, with all by which a claim chooses: it sorts
#: nothing, and reads no row of a job that its host cannot run.
sa.Index(
    "ix_jobs_queued",
    jobs.c.submitted_by,
    jobs.c.priority.desc(),
    jobs.c.submitted_at,
    jobs.c.job_id,
    jobs.c.hardware,
    jobs.c.needs,
    jobs.c.state,
    postgresql_where=_QUEUED,
    sqlite_where=_QUEUED,
)

#: A view: how many jobs of each submitter are running, on whatever host.
running_of_submitters = sa.table("running_of_submitters", sa.column("submitted_by", sa.Text), sa.column("count"))

#: Whatever changes a column of a job that has a `doc` adds an event in the same transaction: by new events the ingester
#: and the pages find the jobs that changed.
job_events = sa.Table(
    "job_events",
    APP,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.job_id"), nullable=False, index=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("actor", sa.Text),  # null: a worker
)
_SET_ASIDE = job_events.c.kind == sa.literal_column("'set aside'")
sa.Index("ix_job_events_set_aside", job_events.c.job_id, postgresql_where=_SET_ASIDE, sqlite_where=_SET_ASIDE)

job_blocks = sa.Table(
    "job_blocks",
    APP,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.job_id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("block", sa.Integer, primary_key=True),  # from 0
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("lease_expires_at", sa.Double, nullable=False),  # seconds since 1970 UTC
    sa.Column("is_done", sa.Boolean, nullable=False),
    sa.Column("content", sa.Text),  # what it measures, where its number does not say it: see lab.schedule.schedule
    sa.Column(
        "likeness", sa.Text
    ),  # what hosts that share the job have in common: see jobs.fleet.blocks; null: unknown
)

workers = sa.Table(
    "workers",
    APP,
    sa.Column("worker", sa.Text, primary_key=True),  # workers.worker.worker_name(): never reused
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("hardware", sa.Text, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("engines_json", sa.Text),  # capabilities of its engines; null until probed
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("last_seen", UtcDateTime, nullable=False),
    sa.Column("job_id", sa.Text),  # the job it runs
    sa.Column("slot", sa.Text),  # its part of the host, as `3: GPU 3; processors 12-15`; null: the whole host
    sa.Column("waits_for", sa.Text),  # why it starts no engine, such as another program on its GPU; null: it would
    sa.Column("queue", sa.Text),  # of the broker, by which it is woken; null: it only polls
    sa.Column("drains", sa.Boolean, nullable=False, server_default=sa.false()),  # ends after the block it measures
    sa.Column("clock_behind_s", sa.Double),  # the database's time minus its own, at its last claim; null: unknown
    sa.Column("keeps", sa.Text),  # engines of its last study, as `2 engines until 14:05 UTC`; null: none
)

hosts = sa.Table(
    "hosts",  # those that had to put a job back since a job last ended on them
    APP,
    sa.Column("host", sa.Text, primary_key=True),  # or its slot: jobs.fleet.hosts.place
    sa.Column("failures", sa.Integer, nullable=False),  # jobs in a row that it had to put back
    sa.Column("reason", sa.Text, nullable=False),  # of the last one
    sa.Column("set_aside_at", UtcDateTime),  # when it stopped taking jobs; null: it takes them
)

curated_studies = sa.Table(
    "curated_studies",
    APP,
    sa.Column("job_id", sa.Text, primary_key=True, doc="the study's job"),
    sa.Column("name", sa.Text, doc="its later name, if any"),
    sa.Column("note", sa.Text, nullable=False, server_default=sa.text("''"), doc="its note"),
    sa.Column("tags", sa.Text, nullable=False, server_default=sa.text("''"), doc="separated by commas"),
    sa.Column("hidden_at", UtcDateTime, doc="when it was hidden from lists"),
    sa.Column("deleted_at", UtcDateTime, doc="when it left the views of results"),
    sa.Column("deleted_by", sa.Text),  # everybody reads the warehouse, and only administrators who did what
    sa.Column("called", sa.Text, doc="its name when it was deleted"),
    sa.Column("purged_at", UtcDateTime, doc="when its bundles were removed for good"),
    sa.Column("owner", sa.Text),  # who imported it first; null: nobody that is known, or it was measured here
)

stored_objects = sa.Table(
    "stored_objects",
    APP,
    sa.Column("path", sa.Text, primary_key=True),  # a bundle's JOB/RUN, or a stored verdict's id
    sa.Column("job_id", sa.Text, nullable=False, index=True),
    sa.Column("serial", sa.Integer, unique=True),  # rises with each row; null: its host has not uploaded it yet
    sa.Column("manifest_sha256", sa.Text),  # null: not uploaded yet, or removed since
    sa.Column("host", sa.Text, nullable=False),  # that wrote the row
    sa.Column("at", UtcDateTime, nullable=False),
)

#: A view of one row: the last serial of stored_objects, whoever wrote it.
last_stored = sa.table("last_stored", sa.column("serial", sa.Integer))

prices = sa.Table(
    "prices",
    APP,
    sa.Column(
        "price_id",
        sa.Integer,
        primary_key=True,
        doc="of two for one hardware and day the higher counts",
    ),
    sa.Column("hardware", sa.Text, nullable=False, doc="whole words of the hardware's name, in any case"),
    sa.Column("valid_from", sa.Date, nullable=False, doc="the first day it is in force"),
    sa.Column("currency", sa.Text, nullable=False, doc="three letters"),
    sa.Column("source", sa.Text, nullable=False, doc="where the price comes from"),
    sa.Column("rented_per_hour", sa.Double, doc="the rent"),
    sa.Column(
        "purchase_price",
        sa.Double,
        doc="an hour costs purchase_price / (lifetime_years * 8766 * utilisation)",
    ),
    sa.Column("lifetime_years", sa.Double, doc="of bought hardware"),
    sa.Column("utilisation", sa.Double, doc="share of that time in use"),
    sa.Column("electricity_per_kwh", sa.Double, doc="null if included or unknown"),
    sa.Column("added_at", UtcDateTime, nullable=False, doc="when it was added"),
    sa.Column("withdrawn_at", UtcDateTime, doc="when it was withdrawn as a mistake"),
)

saved_views = sa.Table(
    "kept_views",  # the name of its first migration
    APP,
    sa.Column("view_id", sa.Text, primary_key=True),  # digest of the content: equal states share a link
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("state_json", sa.Text, nullable=False),
    sa.Column("kept_at", UtcDateTime, nullable=False),
    sa.Column("owner", sa.Text),  # who saved it first; null: nobody that is known
    sa.Column("used_at", UtcDateTime),  # when it was last opened; null: not since it was saved
    sa.Index("ix_kept_views_owner_kept_at", "owner", "kept_at"),
    sa.Index("ix_kept_views_kept_at", "kept_at"),
)

named_views = sa.Table(
    "named_views",
    APP,
    sa.Column("page", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("view_id", sa.Text, sa.ForeignKey("kept_views.view_id"), nullable=False),
    sa.Column("named_at", UtcDateTime, nullable=False),
    sa.Column("owner", sa.Text),  # null: nobody that is known
)

dashboards = sa.Table(
    "dashboards",
    APP,
    sa.Column("dashboard_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("removed_at", UtcDateTime),  # set to null to restore it: nothing is deleted
    sa.Column("owner", sa.Text),  # null: nobody that is known
)

pins = sa.Table(
    "pins",
    APP,
    sa.Column("pin_id", sa.Text, primary_key=True),
    sa.Column("dashboard_id", sa.Text, sa.ForeignKey("dashboards.dashboard_id"), nullable=False, index=True),
    sa.Column("place", sa.Integer, nullable=False),  # pins are ordered by it
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("parameters_json", sa.Text, nullable=False),  # of the page's link: each a list of values
    sa.Column("figure", sa.Text, nullable=False),  # which of the page's figures
    sa.Column("caption", sa.Text, nullable=False),
    sa.Column("as_of", UtcDateTime),  # null: now
    sa.Column("pinned_at", UtcDateTime, nullable=False),
    sa.Column("removed_at", UtcDateTime),
    sa.Column("is_wide", sa.Boolean),  # null: as wide as its figure needs
)

users = sa.Table(
    "users",
    APP,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),  # lab.roles.Role
    sa.Column("password_hash", sa.Text),  # argon2id; null until a password is set, or for ever with another login
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("disabled_at", UtcDateTime),  # null: may sign in
    sa.Column("came_in_at", UtcDateTime),  # when the user last signed in; null: never
)


def _tokens(name: str, *columns: sa.Column[datetime]) -> sa.Table:
    """Secrets that were handed out: only their digests are stored."""
    return sa.Table(
        name,
        APP,
        sa.Column("token_hash", sa.Text, primary_key=True),  # SHA-256: the secrets are random and long
        sa.Column("name", sa.Text, sa.ForeignKey("users.name"), nullable=False, index=True),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("ends_at", UtcDateTime, nullable=False),
        *columns,
    )


login_links = _tokens("login_links")
sessions = _tokens("sessions", sa.Column("last_seen", UtcDateTime, nullable=False))

api_tokens = sa.Table(
    "api_tokens",
    APP,
    sa.Column("token_id", sa.Text, primary_key=True),  # what people call it
    sa.Column("token_hash", sa.Text, nullable=False, unique=True),  # SHA-256: the secrets are random and long
    sa.Column("name", sa.Text, sa.ForeignKey("users.name"), nullable=False, index=True),
    sa.Column("label", sa.Text, nullable=False),  # what it is for
    sa.Column("role", sa.Text, nullable=False),  # the most that it may do: lab.roles.Role
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ends_at", UtcDateTime, nullable=False),
    sa.Column("last_used_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
)

shared_links = sa.Table(
    "shared_links",
    APP,
    sa.Column("link_id", sa.Text, primary_key=True),  # what people call it
    sa.Column("token_hash", sa.Text, nullable=False, unique=True),  # SHA-256: the secrets are random and long
    sa.Column("owner", sa.Text, nullable=False, index=True),  # no user in a lab without accounts
    sa.Column("kind", sa.Text, nullable=False),  # access.shared_links.Kind
    sa.Column("subject", sa.Text, nullable=False),  # the id of what it shows
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ends_at", UtcDateTime, nullable=False),
    sa.Column("last_used_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
    sa.Column("as_of", UtcDateTime),  # the point in time of what it shows; null: always the newest data
)

login_failures = sa.Table(
    "login_failures",
    APP,
    sa.Column("failure_id", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),  # a user's name, or an address
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("ix_login_failures_key_at", "key", "at"),
)

login_addresses = sa.Table(
    "login_addresses",
    APP,
    sa.Column("name", sa.Text, sa.ForeignKey("users.name"), primary_key=True),
    sa.Column("address", sa.Text, primary_key=True),  # as failures are counted: access.addresses
    sa.Column("came_in_at", UtcDateTime, nullable=False),
)

audit = sa.Table(
    "audit",
    APP,
    sa.Column("audit_id", sa.Integer, primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),  # the role that the actor had then
    sa.Column("via", sa.Text, nullable=False),  # lab.roles.Via
    sa.Column("action", sa.Text, nullable=False),  # lab.roles.Change, or a word of its own
    sa.Column("subject", sa.Text, nullable=False),  # what was changed
    sa.Column("detail_json", sa.Text, nullable=False),
    sa.Index("ix_audit_actor_at", "actor", "at"),
)

series = sa.Table(
    "series",
    APP,
    sa.Column("series", sa.Text, primary_key=True, doc="its name"),
    sa.Column("study", sa.Text, nullable=False, doc="the measured study"),
    sa.Column("schedule", sa.Text, nullable=False, doc="such as day at 02:00; imported: none"),
    sa.Column("zone", sa.Text, nullable=False, doc="of the schedule"),
    sa.Column("engine", sa.Text, doc="such as vllm@newest; null: the study's"),
    sa.Column("priority", sa.Integer, nullable=False, doc="of its jobs"),
    sa.Column("added_at", UtcDateTime, nullable=False, doc="when it was added"),
    sa.Column("paused_at", UtcDateTime, doc="when it was paused"),
    sa.Column("removed_at", UtcDateTime, doc="when it was removed"),
    sa.Column("silenced_until", UtcDateTime, doc="alarms until then are sent nowhere"),
    sa.Column("due_since", UtcDateTime, nullable=False),  # when it was added or resumed: nothing was due before
    sa.Column("study_json", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("arm", sa.Text, doc="the only arm watched; null: each"),
)

nights = sa.Table(
    "nights",
    APP,
    sa.Column("night_id", sa.Text, primary_key=True, doc="series and due time; #n for a re-measurement"),
    sa.Column("series", sa.Text, sa.ForeignKey("series.series"), nullable=False, doc="the series"),
    sa.Column("due_at", UtcDateTime, nullable=False, doc="when it was due"),
    sa.Column("again_of", sa.Text, doc="the night that it re-measures"),
    sa.Column("state", sa.Text, nullable=False, doc="queued, measured, failed, invalid, skipped or missed"),
    sa.Column("job_id", sa.Text, doc="its job; null if none was queued"),
    sa.Column("note", sa.Text, doc="why there is no value"),
    sa.Column("speedup", sa.Double, doc="ratio to the baseline's tokens/s, geometric mean over the cells"),
    sa.Column("low", sa.Double, doc="bound of its 95 % interval"),
    sa.Column("high", sa.Double, doc="bound of its 95 % interval"),
    sa.Column("acceptance_length", sa.Double, doc="of all valid runs of the arm"),
    sa.Column("arm_tok_per_s", sa.Double, doc="geometric mean over the cells"),
    sa.Column("baseline_tok_per_s", sa.Double, doc="geometric mean over the cells"),
    sa.Column("hardware", sa.Text, doc="the hardware"),
    sa.Column("engine_version", sa.Text, doc="engine and version of the arm"),
    sa.Column("speedup_finding", sa.Text, doc="learning, usual, suspicious, outlier, fall or rise"),
    sa.Column("predicted_low", sa.Double, doc="95 % range of the speed-up by the nights before"),
    sa.Column("predicted_high", sa.Double, doc="95 % range of the speed-up by the nights before"),
    sa.Column("acceptance_finding", sa.Text, doc="as speedup_finding"),
    sa.Column("arm", sa.Text, doc="a night has a row for each"),
    sa.Column("label", sa.Text, doc="the label commit of imported runs"),
    sa.Index("ix_nights_series_due_at", "series", "due_at"),
)

alarms = sa.Table(
    "alarms",
    APP,
    sa.Column("alarm_id", sa.Integer, primary_key=True, doc="numbers the alarms"),
    sa.Column("series", sa.Text, sa.ForeignKey("series.series"), nullable=False, index=True, doc="the series"),
    sa.Column("night_id", sa.Text, nullable=False, doc="the night"),
    sa.Column("kind", sa.Text, nullable=False, doc="fall, rise (a change for the better, sent nowhere) or no data"),
    sa.Column("measure", sa.Text, nullable=False, doc="speedup, acceptance_length, or nights of no data"),
    sa.Column("sentence", sa.Text, nullable=False, doc="what happened"),
    sa.Column("raised_at", UtcDateTime, nullable=False, doc="when"),
    sa.Column("acknowledged_at", UtcDateTime, doc="when somebody acknowledged it"),
    sa.Column("acknowledged_by", sa.Text, doc="who"),
    sa.Column("acknowledgement", sa.Text, doc="their note"),
    sa.Column("webhook_at", UtcDateTime),  # when it was delivered; null: not yet, or to nobody
    sa.Column("email_at", UtcDateTime),
    sa.Column("delivery_error", sa.Text),
    sa.UniqueConstraint("night_id", "kind", "measure", name="uq_alarms_night_id"),
)

bisects = sa.Table(
    "bisects",
    APP,
    sa.Column("bisect_id", sa.Text, primary_key=True),
    sa.Column("series", sa.Text, sa.ForeignKey("series.series"), nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("measure", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),  # such as wheels in FOLDER
    sa.Column("versions_json", sa.Text, nullable=False),  # as they were at its begin, the good one first
    sa.Column("study_json", sa.Text, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("started_by", sa.Text, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("end_json", sa.Text),  # what it found
)

bisect_steps = sa.Table(
    "bisect_steps",
    APP,
    sa.Column("bisect_id", sa.Text, sa.ForeignKey("bisects.bisect_id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),  # its place in versions_json
    sa.Column("job_id", sa.Text),  # null: it could not be installed or queued
    sa.Column("note", sa.Text),  # why
)

series_annotations = sa.Table(
    "series_annotations",
    APP,
    sa.Column("annotation_id", sa.Integer, primary_key=True),
    sa.Column("series", sa.Text, sa.ForeignKey("series.series"), nullable=False, index=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("added_by", sa.Text, nullable=False),
)
