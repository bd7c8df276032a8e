"""SQL from users, run in a child process that the operating system limits."""
