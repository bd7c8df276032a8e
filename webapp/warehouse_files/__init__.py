"""The warehouse's file for programs elsewhere: any DuckDB, `drafthouse pull`, or whatever reads ranges over HTTP."""
