"""What an answer reports of caches, and whether its request was sent again.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from alembic import op

revision = "warehouse_0024"
down_revision = "warehouse_0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE recent_requests ADD COLUMN cached_prompt_tokens INTEGER")
    op.execute("ALTER TABLE recent_requests ADD COLUMN resent INTEGER")


def downgrade() -> None:
    op.execute("ALTER TABLE recent_requests DROP COLUMN resent")
    op.execute("ALTER TABLE recent_requests DROP COLUMN cached_prompt_tokens")
