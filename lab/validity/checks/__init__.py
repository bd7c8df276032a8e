"""The validity checks: one module a subject."""
