"""The comparison of one arm with another, and how sure it is. Formulas and their sources: docs/comparison.md."""
