"""What a study is and what its numbers mean: pure functions and records, no I/O."""
