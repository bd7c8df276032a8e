"""The prompts of a study: the known datasets, the contents of their files, and how a workload picks from them."""
