"""Verdicts on pages: the answer, cards of arms, tables of verdicts and capacities."""
