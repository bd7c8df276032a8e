"""A study's way through the queue, for whoever submits, watches or works. Starts and measures nothing."""
