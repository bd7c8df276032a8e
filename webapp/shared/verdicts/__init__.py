"""What pages show of verdicts: the answer, cards of arms, tables of verdicts and capacities."""
