"""The prompts of a study: which datasets there are, what their files hold, and how a workload picks from them."""
