"""How soon and how truly the lab decides, in simulated worlds and against a server of known capacity."""
