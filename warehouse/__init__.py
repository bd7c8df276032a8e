"""Storage of measurements: bundles on disk, the app database, the DuckDB warehouse, and the queries that read them."""
