"""Formats with figures of a run and few or none of its requests; most are a call of `declared.declared`."""
