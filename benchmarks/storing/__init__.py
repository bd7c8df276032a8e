"""Benchmarks of what is done with a run once it is measured, or read from another tool's file."""
