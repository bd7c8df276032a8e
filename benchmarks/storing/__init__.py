"""Benchmarks of storing runs, measured or imported."""
