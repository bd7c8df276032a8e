"""Verbs that describe and measure studies."""
