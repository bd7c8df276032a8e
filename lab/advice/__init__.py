"""Advice on what to enable and what to measure next, from verdicts and from published rules."""
