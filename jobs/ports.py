"""Loopback ports for programs that begin to listen seconds later."""

from __future__ import annotations

import secrets
import socket

#: Below those that Linux and macOS hand to outgoing connections: one of them could be taken before its program listens.
_PORTS = range(20_000, 32_768)
_ATTEMPTS = 100


def free_port() -> int:
    """Pick at random a port on which nothing listens. Raises OSError if all ports tried are taken."""
    for _ in range(_ATTEMPTS):
        if port_is_free(port := secrets.choice(_PORTS)):
            return port
    raise OSError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1}, {_ATTEMPTS} were tried and all are taken")


def port_is_free(port: int) -> bool:
    """Whether this process could listen on 127.0.0.1 there now."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
