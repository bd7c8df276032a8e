"""Formats that have figures of a run and none of its requests."""
