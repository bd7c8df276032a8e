"""The warehouse's tables, views and columns, each with its meaning, and its migrations."""
