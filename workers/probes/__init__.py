"""Probes beside a measured window: the engine's metrics, GPUs, the host, and the lag of our own event loop."""
