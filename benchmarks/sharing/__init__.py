"""Parts on several slots of a host."""
