"""Queries on the published warehouse, one module per subject."""
