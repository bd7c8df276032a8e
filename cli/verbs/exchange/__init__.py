"""Verbs that import and export results, and repeat published ones."""
