"""Parts on a synthetic warehouse of any size: the time of queries and pages."""
