"""What is read beside the requests: the server's counters, the accelerator, the client's own lag."""
