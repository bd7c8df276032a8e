"""Connections: what HTTP allows is read, what it does not is an error, and a connection is used again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs.engines.addresses import RefusedAddress
from tests.workers.load.builders import params, prompts
from workers.load.client import Endpoint, open_session, send
from workers.load.connections import CannotConnectError, Connections, Response

#: Key and certificate of a server at localhost, which nobody trusts by default.
CERTIFICATE = Path(__file__).with_name("localhost.pem")
MOST_BYTES = 2**20
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Received:
    """A receiver that keeps what it gets."""

    def __init__(self) -> None:
        self.body, self.times_s = b"", list[float]()

    def receive(self, t_s: float, received: bytes) -> None:
        self.times_s.append(t_s)
        self.body += received


@asynccontextmanager
async def talking(talk: Talk, **how: Any) -> AsyncIterator[int]:
    """A server that talks as told on each connection; gives its port."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, **how)
    async with server:
        yield server.sockets[0].getsockname()[1]


def saying(*answers: bytes, hangs_up: bool = True) -> Talk:
    """Answer each request with the next of these bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\nbody")
            writer.write(answer)
            await writer.drain()
        if not hangs_up:
            await reader.read()

    return talk


async def post(
    connections: Connections, port: int, *, host: str = "127.0.0.1", scheme: str = "http", most_bytes: int = MOST_BYTES
) -> tuple[Response, Received]:
    received, url = Received(), f"{scheme}://{host}:{port}/path"
    async with asyncio.timeout(600):
        done = await connections.post(url, {"X": "y"}, b"body", received, time.perf_counter, most_bytes=most_bytes)
    return done, received


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole", b"whole"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nwho\r\n2\r\nle\r\n0\r\nT: railer\r\n\r\n",
            b"whole",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the server hangs up", b"until the server hangs up"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwhole", b"whole"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: none\r\nContent-Length: 5\r\n\r\nwhole", b"whole"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole", b"whole"),
    ],
    ids=["length", "chunks", "until the end", "old", "marked as not compressed", "interim"],
)
async def test_an_answer_of_any_form_is_read_whole(connections: Connections, answer: bytes, body: bytes) -> None:
    async with talking(saying(answer)) as port:
        done, received = await post(connections, port)
    assert (done.status, done.refusal, received.body) == (200, b"", body)
    assert done.is_whole == (body != b"until the server hangs up")  # only then its end is no proof


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "hung up before the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "hung up before the end"),
        (b"", "hung up before the end"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b..", "compressed its answer"),
    ],
    ids=["short", "half a chunk", "nothing", "another protocol", "no chunks", "compressed"],
)
async def test_a_broken_answer_is_an_error_that_says_how(connections: Connections, answer: bytes, problem: str) -> None:
    async with talking(saying(answer)) as port:
        with pytest.raises(ConnectionError, match=problem):
            await post(connections, port)


async def test_a_refusal_comes_with_its_text_and_is_not_received(connections: Connections) -> None:
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 9\r\n\r\nslow down"
    async with talking(saying(refusal)) as port:
        done, received = await post(connections, port)
    assert (done, received.body) == (Response(429, b"slow down"), b"")


async def test_a_connection_is_used_again_only_after_a_whole_permitting_answer(connections: Connections) -> None:
    """Each answer says the number of its connection."""
    opened = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        mine = opened
        for close in (b"", b"Connection: close\r\n"):
            await reader.readuntil(b"\r\n\r\nbody")
            writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: 1\r\n\r\n%d" % (close, mine))
        await reader.read()

    async with talking(talk) as port:
        answers = [(await post(connections, port))[1].body for _ in range(3)]
        assert answers == [b"1", b"1", b"2"]
        at_once = await asyncio.gather(post(connections, port), post(connections, port))
        assert [received.body for _, received in at_once] == [b"2", b"3"]


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again(connections: Connections) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
    async with talking(saying(whole)) as port:
        await post(connections, port)
        async with asyncio.timeout(600):
            while connections._selector.get_map():  # noqa: ASYNC110 - until its goodbye has come; no event of ours
                await asyncio.sleep(0.01)
        assert (await post(connections, port))[1].body == b"1"


async def test_an_exchange_that_was_given_up_leaves_no_connection_behind(connections: Connections) -> None:
    async with talking(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", hangs_up=False)) as port:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await post(connections, port)
        assert not connections._selector.get_map()


async def test_chunks_have_the_times_of_their_coming(connections: Connections) -> None:
    """Each chunk is sent some time after the one before has come."""
    has_come = asyncio.Semaphore(0)

    class Telling(Received):
        def receive(self, t_s: float, received: bytes) -> None:
            super().receive(t_s, received)
            has_come.release()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\nbody")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            writer.write(b"1\r\nx\r\n")
            await has_come.acquire()
            await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    received = Telling()
    async with talking(talk) as port, asyncio.timeout(600):
        url = f"http://127.0.0.1:{port}/"
        await connections.post(url, {}, b"body", received, time.perf_counter, most_bytes=MOST_BYTES)
    assert received.body == b"xxx"
    assert all(later - earlier > 0.03 for earlier, later in zip(received.times_s, received.times_s[1:], strict=False))


async def test_what_takes_a_chunk_long_delays_no_other_streams_time(connections: Connections) -> None:
    class Slow(Received):
        def receive(self, t_s: float, received: bytes) -> None:
            super().receive(t_s, received)
            time.sleep(3)

    waiting = asyncio.Barrier(2)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\nbody")
        await waiting.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")

    both = (Slow(), Slow())
    async with talking(talk) as port:
        url = f"http://127.0.0.1:{port}/"
        posts = (connections.post(url, {}, b"body", it, time.perf_counter, most_bytes=MOST_BYTES) for it in both)
        await asyncio.gather(*posts)
    (first_s,), (second_s,) = (it.times_s for it in both)
    assert abs(first_s - second_s) < 2.9


async def test_what_has_been_read_of_answers_that_are_given_up_is_received(connections: Connections) -> None:
    """All are given up while the first is parsed: what the others have has only been read by then."""
    posts = list[asyncio.Task[Response]]()

    class GivesUp(Received):
        def receive(self, t_s: float, received: bytes) -> None:
            super().receive(t_s, received)
            for post in posts:
                post.cancel()
            time.sleep(0.01)  # longer than a slice

    waiting = asyncio.Barrier(4)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\nbody")
        await waiting.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nwhole")
        await reader.read()

    receivers = [GivesUp() for _ in range(4)]
    async with talking(talk) as port:
        for it in receivers:
            post = connections.post(f"http://127.0.0.1:{port}/", {}, b"body", it, time.perf_counter, most_bytes=99)
            posts.append(asyncio.create_task(post))
        ended = await asyncio.gather(*posts, return_exceptions=True)
    assert [type(end) for end in ended] == [asyncio.CancelledError] * 4
    assert [it.body for it in receivers] == [b"whole"] * 4


async def test_a_connection_answered_before_the_whole_request_is_not_used_again(
    connections: Connections,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await asyncio.sleep(0.1)
        await reader.read(1 << 20)  # so that the client may send once more
        await reader.read()

    async with talking(talk, limit=1 << 14) as port:
        url, body = f"http://127.0.0.1:{port}/", bytes(64 << 20)
        done = await connections.post(url, {}, body, Received(), time.perf_counter, most_bytes=MOST_BYTES)
        assert done == Response(413, b"big")
        assert not connections._selector.get_map()


async def test_callers_go_on_in_turns_and_what_comes_meanwhile_is_read(
    connections: Connections,
) -> None:
    """Each pass of the loop reads what has come; a caller that goes on makes a record and sends the next request."""
    waiting, ends, passes, went_on = 0, asyncio.Event(), 0, list[int]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        await reader.readuntil(b"\r\n\r\nbody")
        waiting += 1
        if waiting == 20:
            ends.set()
        await ends.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await asyncio.sleep(0)
            passes += 1

    async def caller(port: int) -> None:
        await post(connections, port)
        went_on.append(passes)

    async with talking(talk) as port:
        counting = asyncio.create_task(count_passes())
        await asyncio.gather(*(caller(port) for _ in range(20)))
        counting.cancel()
    assert max(map(went_on.count, went_on)) <= 2, went_on  # two where more comes in the same pass


async def test_a_long_request_is_sent_whole_to_a_server_that_reads_slowly(connections: Connections) -> None:
    read = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.05)
        read = await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
        await writer.drain()

    body = bytes(range(256)) * 2**16
    async with talking(talk) as port:
        url, received = f"http://127.0.0.1:{port}/", Received()
        done = await connections.post(url, {}, body, received, time.perf_counter, most_bytes=MOST_BYTES)
    assert (done.status, read) == (200, body)


@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
async def test_an_answer_without_end_is_given_up_at_its_limit(connections: Connections, status: bytes) -> None:
    """A foreign server that sends for ever does not fill the memory."""
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\nbody")
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
        while not writer.is_closing() and sent < 100 * MOST_BYTES:
            writer.write(bytes(2**16))
            await writer.drain()
            sent += 2**16

    async with talking(talk) as port:
        with pytest.raises(ConnectionError, match="more than 1,048,576 bytes, the limit of this answer"):
            await post(connections, port)
    assert sent < 30 * MOST_BYTES


async def test_of_a_long_refusal_the_beginning_is_kept(connections: Connections) -> None:
    text = b"no" * 50_000
    refusal = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    async with talking(saying(refusal)) as port:
        done, _ = await post(connections, port)
    assert done == Response(500, text[:65_536])


async def test_tls_is_spoken_with_a_server_whose_certificate_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    large = b"x" * 100_000
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(large) + large
    async with talking(saying(whole, whole, hangs_up=False), ssl=with_certificate()) as port:
        async with Connections() as strict:
            with pytest.raises(CannotConnectError, match="certificate verify failed"):
                await post(strict, port, host="localhost", scheme="https")
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        async with Connections() as trusting:
            for _ in range(2):
                _, received = await post(trusting, port, host="localhost", scheme="https")
                assert received.body == large


def with_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    return context


async def closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_the_authorities_that_a_study_names_are_trusted_for_requests_and_pages() -> None:
    over = asyncio.Barrier(3)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
        await closed(writer)
        await over.wait()

    async with talking(talk, ssl=with_certificate()) as port:
        target = Endpoint(f"https://localhost:{port}", "m", ca_file=CERTIFICATE)
        async with target.connections() as trusting, open_session(target) as session:
            _, received = await post(trusting, port, host="localhost", scheme="https")
            async with session.get(f"{target.base_url}/version") as page:
                assert (received.body, await page.read()) == (b"1", b"1")
        await over.wait()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_requests_go_through_a_proxy_to_the_checked_address(scheme: str) -> None:
    asked, over = list[bytes](), asyncio.Barrier(3)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\nbody")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
        await reader.read()
        await closed(writer)
        await over.wait()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await asyncio.gather(copied(reader, back), copied(there, writer))
        await closed(back, writer)
        await over.wait()

    context = with_certificate() if scheme == "https" else None
    async with talking(talk, ssl=context) as port, talking(tunnel) as proxy:
        url = f"http://127.0.0.1:{proxy}"
        target = Endpoint(f"{scheme}://localhost:{port}", "m", proxy=url, ca_file=CERTIFICATE, checked=True)
        async with target.connections() as connections:
            for _ in range(2):
                _, received = await post(connections, port, host="localhost", scheme=scheme)
                assert received.body == b"1"
        await over.wait()
    (head,) = asked  # one tunnel for both
    addresses = (b"127.0.0.1", b"[::1]")
    assert head.split(b"\r\n")[0] in {b"CONNECT %s:%d HTTP/1.1" % (address, port) for address in addresses}


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while received := await reader.read(1 << 16):
            writer.write(received)
            await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"HTTP/1.1 403 Forbidden\r\n\r\n", "the proxy answered HTTP/1.1 403 Forbidden"), (b"", "the proxy hung up")],
)
async def test_a_proxy_that_refuses_is_named(answer: bytes, words: str) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await closed(writer)

    async with talking(refuses) as proxy, Connections(proxy=f"http://127.0.0.1:{proxy}") as connections:
        with pytest.raises(CannotConnectError, match=words):
            await post(connections, 1)


async def test_a_name_is_resolved_once_and_each_of_its_addresses_is_tried(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups: list[object] = []

    def resolve(host: object, *_: object, **__: object) -> list[tuple[Any, ...]]:
        lookups.append(host)
        resolved = ("127.0.0.2", "127.0.0.1")  # nobody listens at the first
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in resolved]

    async with talking(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")) as port:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        for _ in range(2):
            assert (await post(connections, port, host="two.example"))[1].body == b"1"
    assert lookups == ["two.example"]


async def test_a_refused_address_is_an_error_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was fine when it was submitted, and is a metadata service when it is connected to."""
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
    target = Endpoint("http://changing.example", "m", foreign=True, checked=True)
    async with Connections(checked=True) as checked:
        record = await send(checked, target, prompts(1)[0], params(), time.perf_counter)
        with pytest.raises(CannotConnectError) as refused:
            await post(checked, 80, host="changing.example")
    assert isinstance(refused.value.__cause__, RefusedAddress)
    assert record.error is not None
    assert record.error.startswith("could not connect: changing.example:80: ")
    assert "169.254.169.254" in record.error
    assert "link-local" in record.error
