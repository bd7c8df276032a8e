"""The `drafthouse` command: one file a verb, its printing beside it."""
