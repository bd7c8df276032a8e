"""One module per foreign tool: its result files as imported runs."""
