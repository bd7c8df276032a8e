"""What one arm is worth beside another, and how sure that is. Formulas and their sources: docs/comparison.md."""
