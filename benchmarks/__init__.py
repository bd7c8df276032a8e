"""What `make bench` runs: Drafthouse beside vLLM's own benchmark, on the same server in the same run, as ratios."""
