"""Alembic's door to the app database; warehouse.app_db.engine opens the connection and brings the metadata."""

from __future__ import annotations

from alembic import context

settings = context.config.attributes
# SQLite can roll DDL back as PostgreSQL can, because we begin every transaction ourselves.
context.configure(connection=settings["connection"], target_metadata=settings["metadata"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
