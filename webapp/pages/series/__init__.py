"""The Series page."""
