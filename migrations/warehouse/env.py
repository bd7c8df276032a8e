"""Alembic's environment for the warehouse (DuckDB); warehouse.ingest.master provides connection and metadata."""

from __future__ import annotations

from alembic import context
from alembic.ddl.impl import DefaultImpl


class DuckDBImpl(DefaultImpl):
    """Registered by being defined. The dialect registers its own only if Alembic was imported first."""

    __dialect__ = "duckdb"
    transactional_ddl = True


settings = context.config.attributes
context.configure(connection=settings["connection"], target_metadata=settings["metadata"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
