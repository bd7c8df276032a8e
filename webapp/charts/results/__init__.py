"""Charts of the Results page."""
