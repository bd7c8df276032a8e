"""The questions asked of the published warehouse: one module a subject."""
