"""What comparisons read: the tokens of outputs, and an index, by which they read the latencies of their own runs alone.

Rules: import nothing of Drafthouse, and never change a revision that was released. Comments and views are no business
of revisions: `drafthouse migrate` sets them anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0008"
down_revision = "warehouse_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("request_records", sa.Column("output_token_ids", sa.ARRAY(sa.Integer)))
    op.create_index("by_prompt_latencies_run_id", "prompt_latencies", ["run_id"])


def downgrade() -> None:
    op.drop_index("by_prompt_latencies_run_id", "prompt_latencies")
    op.drop_column("request_records", "output_token_ids")
