"""Charts of the Compare page."""
