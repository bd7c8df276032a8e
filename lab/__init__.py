"""Studies, their metrics, comparisons and checks: pure functions and records, no I/O."""
