"""Makes runs happen: engines, prompts, load, probes, and the queue that says what is next."""
