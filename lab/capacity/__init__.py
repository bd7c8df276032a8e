"""Capacity: the greatest load at which an arm keeps the study's SLO, found by a search over noisy runs."""
