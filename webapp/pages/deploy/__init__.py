"""The Deploy page."""
