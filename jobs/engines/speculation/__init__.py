"""The options of each engine's speculation beyond method, draft model and number of tokens."""
