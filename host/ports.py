"""Loopback ports for programs that begin to listen seconds later."""

from __future__ import annotations

import secrets
import socket
import sys
from collections import deque

#: Below those that Linux and macOS hand to outgoing connections: one of them could be taken before its program listens.
_PORTS = range(20_000, 32_768)
_ATTEMPTS = 100
#: Of the ports that this process has picked. The program of an earlier one has long begun to listen.
_MOST_RESERVED = 64
_reserved: deque[socket.socket] = deque()


def free_port() -> int:
    """Pick at random a port on which nothing listens, and which no other process has picked so. Raises OSError if all
    ports tried are taken.
    """
    for _ in range(_ATTEMPTS):
        if port_is_free(port := secrets.choice(_PORTS)) and _reserve(port):
            return port
    raise OSError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1}, {_ATTEMPTS} were tried and all are taken")


def port_is_free(port: int) -> bool:
    """Whether this process could listen on 127.0.0.1 there now."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _reserve(port: int) -> bool:
    """Keep a name of the port until this process ends or has picked many others; False if another process has it.

    Linux takes an abstract socket's name back however a process ends, and has one set of them and of ports for each
    network. Elsewhere nothing is kept.
    """
    if sys.platform != "linux":
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0drafthouse-port-{port}")
    except OSError:
        name.close()
        return False
    _reserved.append(name)
    if len(_reserved) > _MOST_RESERVED:
        _reserved.popleft().close()
    return True
