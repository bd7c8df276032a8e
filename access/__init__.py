"""Identity and permissions of visitors: accounts, passwords, sessions, tokens, shared links, and the login."""
