"""Shows and submits: the pages, and nothing that measures or computes a metric."""
