"""The warehouse's file for programs elsewhere: any DuckDB, `drafthouse pull`, or any reader of HTTP ranges."""
