"""Figures published by others, the checks on them, and their comparison with a replication."""
