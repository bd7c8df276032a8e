"""Keeps what was measured: files, databases, questions."""
