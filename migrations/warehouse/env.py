"""Alembic's door to the warehouse (DuckDB); warehouse.ingest.master opens the connection and brings the metadata."""

from __future__ import annotations

from alembic import context
from alembic.ddl.impl import DefaultImpl


class DuckDBImpl(DefaultImpl):
    """Defining it registers it. The dialect registers its own only where Alembic was imported before it."""

    __dialect__ = "duckdb"
    transactional_ddl = True


settings = context.config.attributes
context.configure(connection=settings["connection"], target_metadata=settings["metadata"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
