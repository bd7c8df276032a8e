"""The processes of Drafthouse on one machine: start, watch, check and stop them."""
