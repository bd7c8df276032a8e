"""The bundle: the immutable folder a run leaves on disk, and its export and import."""
