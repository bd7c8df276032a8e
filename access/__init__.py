"""Who somebody is and what they may do here: accounts, passwords, sessions, tokens, shared links, and their login."""
