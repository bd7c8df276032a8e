"""The formats of dataset files; each module parses one format into rows."""
