"""The visitor's own links, tokens and password; for an administrator also the users."""
