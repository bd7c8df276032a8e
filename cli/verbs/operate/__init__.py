"""Verbs that run and maintain the services."""
