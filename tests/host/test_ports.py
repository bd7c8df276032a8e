"""A program that starts in seconds finds its port as free as it was when it was picked."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from host import ports
from host.ports import free_port
from tests.cli.homes import REPOSITORY

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WITHOUT_LINUX = "49152 65535"  # of RFC 6335, as on macOS


def test_no_outgoing_connection_takes_a_port_that_was_picked() -> None:
    first, last = map(int, (_RANGE.read_text() if _RANGE.exists() else _WITHOUT_LINUX).split())
    assert not any(first <= free_port() <= last for _ in range(50))


@pytest.fixture
def reserved(monkeypatch: pytest.MonkeyPatch) -> Iterator[deque[socket.socket]]:
    """What is picked in this test, and free again after it."""
    monkeypatch.setattr(ports, "_reserved", deque())
    yield ports._reserved
    for name in ports._reserved:
        name.close()


@pytest.fixture
def only(reserved: deque[socket.socket], monkeypatch: pytest.MonkeyPatch) -> int:
    """The one port that can be picked."""
    assert not reserved
    port = free_port()  # which no process of another suite has reserved
    reserved.pop().close()
    monkeypatch.setattr(ports, "_PORTS", range(port, port + 1))
    return port


def test_a_port_on_which_something_listens_is_not_picked(only: int) -> None:
    with socket.create_server(("127.0.0.1", only)), pytest.raises(OSError, match=f"{only} to {only}.* all are in use"):
        free_port()
    assert free_port() == only


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is kept there")
def test_a_port_is_picked_once_until_whoever_picked_it_has_ended(only: int) -> None:
    picks = f"import host.ports as p; p._PORTS = range({only}, {only} + 1); print(p.free_port(), flush=True); input()"
    command = (sys.executable, "-c", picks)
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == only
        with pytest.raises(OSError, match="all are in use"):
            free_port()
        other.kill()
    assert free_port() == only
    with pytest.raises(OSError, match="all are in use"):
        free_port()


def test_of_many_picks_the_last_are_kept(reserved: deque[socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_MOST_RESERVED", 3)
    picked = [free_port() for _ in range(5)]
    assert len(set(picked)) == 5
    if sys.platform == "linux":
        assert [name.getsockname() for name in reserved] == [
            f"\0drafthouse-port-{port}".encode() for port in picked[2:]
        ]
