"""The tables of the first release.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "app_0016"
down_revision = None
branch_labels = None
depends_on = None

#: The columns of each table in order, those of one type that follow each other in one line: `!` refuses null, `=` gives
#: a default. Then its keys, its references to the same column of another table, and its indexes.
_TABLES = {
    "studies": """
        text!: study_id name toml json
        moment!: created_at
        key: study_id
    """,
    "jobs": """
        text!: job_id study_id name study_json state
        integer!=0: priority
        moment!: submitted_at
        moment: started_at finished_at
        text: worker
        double: lease_expires_at
        integer!=0: tries
        text: progress_json error
        boolean!=false: cancel_requested
        text: hardware
        integer!=0: reuse_from_try
        text: submitted_by
        key: job_id
        reference: study_id studies
        index: state priority submitted_at
        index: submitted_at job_id
        index: finished_at job_id
    """,
    "job_events": """
        integer!: id
        text!: job_id
        moment!: at
        text!: kind detail
        text: actor
        key: id
        reference: job_id jobs
        index: job_id
    """,
    "job_blocks": """
        text!: job_id
        integer!: attempt block
        text!: worker
        double!: lease_expires_at
        boolean!: is_done
        text: content
        key: job_id attempt block
        reference: job_id jobs
    """,
    "workers": """
        text!: worker host hardware
        integer!: gpus
        text: engines_json
        moment!: started_at last_seen
        text: job_id slot waits_for
        key: worker
    """,
    "prices": """
        integer!: price_id
        text!: hardware
        date!: valid_from
        text!: currency source
        double: rented_per_hour purchase_price lifetime_years utilisation electricity_per_kwh
        moment!: added_at
        moment: withdrawn_at
        key: price_id
    """,
    "kept_views": """
        text!: view_id page state_json
        moment!: kept_at
        text: owner
        moment: used_at
        key: view_id
        index: owner kept_at
        index: kept_at
    """,
    "named_views": """
        text!: page name view_id
        moment!: named_at
        text: owner
        key: page name
        reference: view_id kept_views
    """,
    "dashboards": """
        text!: dashboard_id name
        moment!: created_at changed_at
        moment: removed_at
        text: owner
        key: dashboard_id
    """,
    "pins": """
        text!: pin_id dashboard_id
        integer!: place
        text!: page parameters_json figure caption
        moment: as_of
        moment!: pinned_at
        moment: removed_at
        boolean: is_wide
        key: pin_id
        reference: dashboard_id dashboards
        index: dashboard_id
    """,
    "users": """
        text!: name role
        text: password_hash
        moment!: created_at
        moment: disabled_at came_in_at
        key: name
    """,
    "login_failures": """
        integer!: failure_id
        text!: key
        moment!: at
        key: failure_id
        index: key at
    """,
    "login_addresses": """
        text!: name address
        moment!: came_in_at
        key: name address
        reference: name users
    """,
    "login_links": """
        text!: token_hash name
        moment!: created_at ends_at
        key: token_hash
        reference: name users
        index: name
    """,
    "sessions": """
        text!: token_hash name
        moment!: created_at ends_at last_seen
        key: token_hash
        reference: name users
        index: name
    """,
    "api_tokens": """
        text!: token_id token_hash name label role
        moment!: created_at ends_at
        moment: last_used_at revoked_at
        key: token_id
        unique: token_hash
        reference: name users
        index: name
    """,
    "shared_links": """
        text!: link_id token_hash owner kind subject title
        moment!: created_at ends_at
        moment: last_used_at revoked_at
        key: link_id
        unique: token_hash
        index: owner
    """,
    "audit": """
        integer!: audit_id
        moment!: at
        text!: actor role via action subject detail_json
        key: audit_id
        index: actor at
    """,
}
_TYPES: dict[str, Any] = {
    "text": sa.Text,
    "integer": sa.Integer,
    "double": sa.Double,
    "boolean": sa.Boolean,
    "date": sa.Date,
    "moment": sa.DateTime(timezone=True),
}
_DEFAULTS: dict[str, Any] = {"": None, "0": "0", "false": sa.false()}


def upgrade() -> None:
    for table, text in _TABLES.items():
        lines = [line.strip().split(": ") for line in text.strip().splitlines()]
        op.create_table(table, *(item for kind, names in lines for item in _items(table, kind, names.split())))
        for kind, names in lines:
            if kind == "index":
                op.create_index(f"ix_{table}_{names.replace(' ', '_')}", table, names.split())


def _items(table: str, kind: str, names: list[str]) -> Iterator[sa.schema.SchemaItem]:
    if kind == "key":
        yield sa.PrimaryKeyConstraint(*names, name=f"pk_{table}")
    elif kind == "unique":
        yield sa.UniqueConstraint(*names, name=f"uq_{table}_{names[0]}")
    elif kind == "reference":
        column, to = names
        yield sa.ForeignKeyConstraint([column], [f"{to}.{column}"], name=f"fk_{table}_{column}")
    elif kind != "index":
        type_, _, default = kind.partition("=")
        for name in names:
            column_type = _TYPES[type_.removesuffix("!")]
            yield sa.Column(name, column_type, nullable="!" not in kind, server_default=_DEFAULTS[default])


def downgrade() -> None:
    for table in reversed(_TABLES):
        op.drop_table(table)
