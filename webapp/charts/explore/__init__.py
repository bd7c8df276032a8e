"""Charts of the Explore page."""
