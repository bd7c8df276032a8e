"""Connections that say nothing, half a header, or headers without end, against a real server on a socket."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from host.ports import free_port
from tests.cli.homes import REPOSITORY
from webapp.server import connections
from webapp.server.connections import Connection

HALF = b"GET / HTTP/1.1\r\nHost: a"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at once, also before the body."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port() -> Iterator[int]:
    chosen = free_port()
    server = uvicorn.Server(
        uvicorn.Config(app, port=chosen, http=Connection, lifespan="off", log_level="error", timeout_keep_alive=600)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield chosen
    server.should_exit = True
    thread.join(600)
    assert not Connection._silent


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", "/", headers={"Connection": "close"})
    return connection.getresponse().read() == b"ok"


def ended(opened: socket.socket) -> bool:
    """Waits for the server to end it."""
    try:
        while opened.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HALF,
        b"\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + HALF,
    ],
    ids=["nothing", "half a header", "an empty line", "half a body that nobody reads", "half a second request"],
)
def test_a_connection_that_asks_nothing_ends(port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for silent_s in (0.3, 3.0, 30.0, 300.0):  # a busy machine may let so long pass before it sends anything
        monkeypatch.setattr(connections, "SILENT_S", silent_s)
        with socket.create_connection(("127.0.0.1", port), 600) as opened, contextlib.suppress(ConnectionError):
            opened.sendall(sent)
            assert ended(opened)
            break
    else:
        pytest.fail("each connection had ended before anything was sent")
    monkeypatch.setattr(connections, "SILENT_S", 600.0)
    assert answers(port)


def test_headers_without_end_are_not_read_to_their_end(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 600.0)
    with socket.create_connection(("127.0.0.1", port), 600) as opened:
        opened.sendall(HALF)
        with pytest.raises(ConnectionError):
            opened.sendall(b"x" * 64 * 2**20)
    assert answers(port)


def test_of_too_many_connections_one_addresss_silent_ones_go_first(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "most", 20)
    monkeypatch.setattr(connections, "SILENT_S", 600.0)  # none goes for its silence alone
    with ExitStack() as stack:
        alone = stack.enter_context(socket.create_connection(("127.0.0.1", port), 600, source_address=("127.0.0.2", 0)))
        many = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 600)) for _ in range(60)]
        assert all(answers(port) for _ in range(5))
        assert all(map(ended, many[:40]))
        alone.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert alone.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_page_may_have_open_what_the_system_allows() -> None:
    program = (
        "import resource; from webapp.server.connections import Connection, guard_connections; guard_connections(); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE), Connection.most)"
    )
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = min(3000, before[1])
    done = subprocess.run(
        (sys.executable, "-c", program),
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)),
    )
    assert done.stdout.split() == [b"%d" % number for number in (hard, hard, hard - hard // 2)]
