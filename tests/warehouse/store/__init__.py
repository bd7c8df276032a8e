"""Bundles in an object store: a real server of the protocol, and a proxy with every fault."""
