"""Benchmarks of decisions: how soon and how correctly the lab decides, simulated and on servers of known capacity."""
