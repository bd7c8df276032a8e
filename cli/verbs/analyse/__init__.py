"""Verbs that judge what was measured."""
