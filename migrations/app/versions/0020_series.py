"""Series: studies that are measured again and again, their nights, alarms and annotations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0020"
down_revision = "app_0019"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _moments(*names: str, nullable: bool = True) -> list[sa.Column[object]]:
    return [sa.Column(name, _MOMENT, nullable=nullable) for name in names]


def _of_series(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["series"], ["series.series"], name=f"fk_{table}_series")


def upgrade() -> None:
    op.create_table(
        "series",
        *_texts("series", "study", "arm", "schedule", "zone"),
        *_texts("engine", nullable=True),
        sa.Column("priority", sa.Integer, nullable=False),
        *_moments("added_at", nullable=False),
        *_moments("paused_at", "removed_at", "silenced_until"),
        *_moments("due_since", nullable=False),
        *_texts("study_json", "owner"),
        sa.PrimaryKeyConstraint("series", name="pk_series"),
    )
    op.create_table(
        "nights",
        *_texts("night_id", "series"),
        *_moments("due_at", nullable=False),
        *_texts("again_of", nullable=True),
        *_texts("state"),
        *_texts("job_id", "note", nullable=True),
        *(
            sa.Column(name, sa.Double)
            for name in ("speedup", "low", "high", "acceptance_length", "arm_tok_per_s", "baseline_tok_per_s")
        ),
        *_texts("hardware", "engine_version", "speedup_finding", nullable=True),
        *(sa.Column(name, sa.Double) for name in ("predicted_low", "predicted_high")),
        *_texts("acceptance_finding", nullable=True),
        sa.PrimaryKeyConstraint("night_id", name="pk_nights"),
        _of_series("nights"),
    )
    op.create_index("ix_nights_series_due_at", "nights", ["series", "due_at"])
    op.create_table(
        "alarms",
        sa.Column("alarm_id", sa.Integer, nullable=False),
        *_texts("series", "night_id", "kind", "measure", "sentence"),
        *_moments("raised_at", nullable=False),
        *_moments("acknowledged_at"),
        *_texts("acknowledged_by", "acknowledgement", nullable=True),
        *_moments("webhook_at", "email_at"),
        *_texts("delivery_error", nullable=True),
        sa.PrimaryKeyConstraint("alarm_id", name="pk_alarms"),
        sa.UniqueConstraint("night_id", "kind", "measure", name="uq_alarms_night_id"),
        _of_series("alarms"),
    )
    op.create_index("ix_alarms_series", "alarms", ["series"])
    op.create_table(
        "series_annotations",
        sa.Column("annotation_id", sa.Integer, nullable=False),
        *_texts("series"),
        *_moments("at", nullable=False),
        *_texts("text", "added_by"),
        sa.PrimaryKeyConstraint("annotation_id", name="pk_series_annotations"),
        _of_series("series_annotations"),
    )
    op.create_index("ix_series_annotations_series", "series_annotations", ["series"])


def downgrade() -> None:
    for table in ("series_annotations", "alarms", "nights", "series"):
        op.drop_table(table)
