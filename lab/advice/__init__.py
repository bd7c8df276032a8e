"""What to enable where, and what to measure next: from verdicts, and from rules that say what to expect and to try."""
