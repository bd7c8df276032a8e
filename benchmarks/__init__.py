"""What `make bench` runs: Drafthouse against a named rival on the same server in the same run, reported as ratios."""
