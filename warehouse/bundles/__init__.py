"""Bundles, the immutable folders that hold runs on disk, and their export and restoration."""
