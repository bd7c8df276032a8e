"""What the other tests rest on: a cut link passes nothing on, and a mended one does again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence

import pytest

from tests.fleet.network import Forwarders, Namespaces, Network, may_make_namespaces


def greet(server: socket.socket) -> None:
    """Send a word to whoever connects, until the server is shut down."""
    with contextlib.suppress(OSError):
        while True:
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                connection.sendall(b"hello")


def is_greeted(network: Network, host: str, port: int, within_s: float) -> bool:
    way = network.way(host, "database", port)
    with network.inside(host), contextlib.suppress(TimeoutError), socket.create_connection(way, within_s) as connection:
        return connection.recv(5) == b"hello"
    return False


@pytest.mark.parametrize("network", [Forwarders, pytest.param(Namespaces, marks=pytest.mark.fleet)])
def test_a_cut_link_passes_nothing_on_until_it_is_mended(network: Callable[[Sequence[str]], Network]) -> None:
    if network is Namespaces and not may_make_namespaces():
        pytest.skip("this machine lets us make no network namespaces")
    with network(("w1", "w2")) as links, socket.create_server((links.address("database"), 0)) as server:
        threading.Thread(target=greet, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        assert is_greeted(links, "w1", port, 600.0)
        links.cut("w1", "database")
        assert not is_greeted(links, "w1", port, 0.5)
        assert is_greeted(links, "w2", port, 600.0)
        links.mend("w1", "database")
        assert is_greeted(links, "w1", port, 600.0)
        server.shutdown(socket.SHUT_RDWR)
