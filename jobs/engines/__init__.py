"""What an engine is and what it accepts: declarations, flags, capabilities. Starts no server."""
