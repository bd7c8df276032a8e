"""The warehouse's tables, views and columns with their meaning, and the revisions of both databases."""
