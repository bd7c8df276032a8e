"""Whether an arm answers as well as another one: task scores, verdicts on them, and tests of equal distributions."""
