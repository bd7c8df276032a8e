"""What is recorded of a run, and the metrics computed from it."""
