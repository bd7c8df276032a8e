"""The lab that a verb works on: the home of this machine, or a lab elsewhere, over its API (`--server`)."""
