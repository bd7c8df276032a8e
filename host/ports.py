"""Loopback ports for programs that begin to listen seconds later."""

from __future__ import annotations

import secrets
import socket
import sys
from collections import deque

#: Below the ports for outgoing connections of Linux and macOS, any of which could be taken before its program listens.
_PORTS = range(20_000, 32_768)
_ATTEMPTS = 100
#: How many picked ports stay reserved: the programs on earlier ones have long begun to listen.
_MOST_RESERVED = 64
_reserved: deque[socket.socket] = deque()


def free_port() -> int:
    """Pick at random a port on which nothing listens and that no other process has reserved. Raises OSError if all
    ports tried are taken.
    """
    for _ in range(_ATTEMPTS):
        if port_is_free(port := secrets.choice(_PORTS)) and _reserve(port):
            return port
    raise OSError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1}, {_ATTEMPTS} were tried, and all are in use")


def port_is_free(port: int) -> bool:
    """Return whether this process could listen on this port of 127.0.0.1 now."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _reserve(port: int) -> bool:
    """Reserve the port until this process ends or has picked many others; return False if another process has it.

    Linux frees an abstract socket's name however a process ends, and has one set of names and one of ports per
    network namespace. On other systems nothing is reserved.
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
