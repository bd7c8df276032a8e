"""Verifies a host: a study of every engine and method, and our client against `vllm bench serve`."""
