"""Quality of an arm's answers against another's: task scores, verdicts on them, and tests of equal distributions."""
