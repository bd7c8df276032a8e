"""What a block measures that was decided when it was handed out.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "app_0014"
down_revision = "app_0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job_blocks", sa.Column("content", sa.Text))


def downgrade() -> None:
    op.drop_column("job_blocks", "content")
