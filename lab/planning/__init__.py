"""How many engine starts, runs and prompts a study needs until its cells are decided, from what was measured before."""
