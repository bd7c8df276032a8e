"""Bundles, the immutable folders that hold runs on disk."""
