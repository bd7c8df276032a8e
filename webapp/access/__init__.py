"""The way into the pages: who a visitor is, and what is asked of each request before anything answers it."""
