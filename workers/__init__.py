"""Processes that measure: the Celery app, the worker and its jobs, launches and runs."""
