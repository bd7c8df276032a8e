"""What each engine's speculation can be set to, beyond method, draft model and number of tokens."""
