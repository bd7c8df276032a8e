"""Verbs that analyse results."""
