"""Alembic's environment for the app database; warehouse.app_db.engine provides connection and metadata."""

from __future__ import annotations

from alembic import context

settings = context.config.attributes
# SQLite can roll back DDL like PostgreSQL, because we begin every transaction ourselves.
context.configure(connection=settings["connection"], target_metadata=settings["metadata"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
