"""Starts, watches and stops the processes that make up Drafthouse on one machine."""
