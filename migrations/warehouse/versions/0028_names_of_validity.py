"""Whether runs are valid stands in tables of that name: a verdict is on an arm. Since here there is the view answers.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0028"
down_revision = "warehouse_0027"
branch_labels = None
depends_on = None

_NAMES = {"verdicts": "run_validity", "study_verdicts": "study_validity"}
#: Those that read the tables, the last first; the ingester creates them again.
_VIEWS = ("answers", "comparisons", "requests", "request_records", "valid_latest_runs", "results")


def upgrade() -> None:
    _rename(_NAMES)


def downgrade() -> None:
    _rename({new: old for old, new in _NAMES.items()})


def _rename(names: dict[str, str]) -> None:
    for view in _VIEWS:
        op.execute(f'DROP VIEW IF EXISTS "{view}"')
    for old, new in names.items():
        op.execute(f'ALTER TABLE "{old}" RENAME TO "{new}"')
