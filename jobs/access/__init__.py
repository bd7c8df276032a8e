"""Who uses this lab: users, their sessions, and the actor behind a command."""
