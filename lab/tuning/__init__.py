"""Finds, with few runs, which draft to deploy and how many tokens it drafts at each load."""
