"""The measuring client: when to send, one streaming request, and the window that holds all requests."""
