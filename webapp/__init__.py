"""The pages, which show results and submit studies; nothing here measures or computes a metric."""
