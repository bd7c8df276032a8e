"""An index, so that a comparison reads the latencies of its own runs and not those of two thousand others beside them.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0008"
down_revision = "warehouse_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("by_prompt_latencies_run_id", "prompt_latencies", ["run_id"])


def downgrade() -> None:
    op.drop_index("by_prompt_latencies_run_id", "prompt_latencies")
