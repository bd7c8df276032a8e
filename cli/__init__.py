"""The `drafthouse` command."""
