"""What an engine is and what it accepts: its command line, flags, capabilities and metrics. Starts no server."""
