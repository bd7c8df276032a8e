"""A program that starts in seconds finds its port as free as it was when it was picked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jobs import ports
from jobs.ports import free_port

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WITHOUT_LINUX = "49152 65535"  # of RFC 6335, as on macOS


def test_no_outgoing_connection_takes_a_port_that_was_picked() -> None:
    first, last = map(int, (_RANGE.read_text() if _RANGE.exists() else _WITHOUT_LINUX).split())
    assert not any(first <= free_port() <= last for _ in range(50))


def test_a_port_on_which_something_listens_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_port()
    monkeypatch.setattr(ports, "_PORTS", range(free, free + 1))
    with socket.create_server(("127.0.0.1", free)), pytest.raises(OSError, match=f"{free} to {free}.* all are taken"):
        free_port()
    assert free_port() == free
