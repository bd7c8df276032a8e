"""A host that proves itself: a study of every engine and method, and the client beside `vllm bench serve`."""
