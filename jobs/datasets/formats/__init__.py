"""The formats of dataset files: each parses one format into rows."""
