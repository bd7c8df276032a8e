"""The SQL page."""
