"""The parts of `make bench`: Drafthouse against a named rival on the same server in the same run, as ratios."""
