"""The comparison of one arm with another, and how sure it is. Formulas and their sources: docs/comparison.md."""

#: Raise it with every change after which the same runs may get another interval or another word: stored verdicts name
#: the version that made them.
ANALYSIS_VERSION = 5
