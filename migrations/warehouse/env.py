"""Alembic's door to the warehouse (DuckDB); warehouse.master opens the connection and brings the metadata."""

from __future__ import annotations

from alembic import context

settings = context.config.attributes
context.configure(connection=settings["connection"], target_metadata=settings["metadata"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
