"""Ports of this machine for programs that begin to listen seconds later."""

from __future__ import annotations

import secrets
import socket

#: Below those that Linux and macOS hand to outgoing connections: one of them could be taken before its program listens.
_PORTS = range(20_000, 32_768)
_ATTEMPTS = 100


def free_port() -> int:
    """Pick at random a loopback port on which nothing listens. Raises OSError if all ports tried are taken."""
    for _ in range(_ATTEMPTS):
        if port_is_free("127.0.0.1", port := secrets.choice(_PORTS)):
            return port
    raise OSError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1}, {_ATTEMPTS} were tried and all are taken")


def port_is_free(host: str, port: int) -> bool:
    """Whether this process could listen there now."""
    try:
        with socket.create_server((host, port), reuse_port=False):
            return True
    except OSError:
        return False
