"""A small server that speaks the OpenAI streaming protocol over real TCP, and misbehaves on demand.

The model's name in a request says what happens to it (behaviours.py). Runs inside a test's event loop (`serve`); to be
killed that module runs as a process of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

PROMPT_TOKENS = 7


@dataclass
class Server:
    """A running server and what it saw."""

    base_url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    arrived: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # holds the answers of model "gated" and "half"

    async def requests_arrived(self, count: int) -> None:
        """Wait until `count` more requests have come."""
        for _ in range(count):
            await self.arrived.get()


@dataclass(frozen=True)
class Exchange:
    """One request and the way to answer it."""

    body: dict[str, Any]
    chat: bool
    writer: asyncio.StreamWriter
    server: Server

    def head(self, status: str = "200 OK", content_type: str = "text/event-stream") -> None:
        self.writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )

    async def write(self, data: bytes) -> None:
        """One HTTP chunk, sent at once."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def event(self, data: dict[str, Any]) -> None:
        await self.write(sse(data))

    async def end(self, *, done: bool = True) -> None:
        if done:
            await self.write(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def token(self, text: str, count: int | None, finish: str | None = None, ids: Sequence[int] = ()) -> dict[str, Any]:
        """`ids` for whoever asks."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        choice |= {"token_ids": list(ids)} if self.body.get("return_token_ids") else {}
        choice |= {"delta": {"content": text}} if self.chat else {"text": text}
        data = {"id": "x", "object": "chunk", "choices": [choice]}
        return data if count is None else data | {"usage": usage(count)}


def usage(count: int) -> dict[str, int]:
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": count, "total_tokens": PROMPT_TOKENS + count}


def sse(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


Behaviour = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def serve(behaviours: Mapping[str, Behaviour], metrics: str | None = None) -> AsyncIterator[Server]:
    """A server in this event loop, on a free port. `metrics` is what it gives at /metrics (404 without)."""
    server = Server("")

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET"):
                    await _answer_get(writer, metrics)
                else:
                    await _answer_post(
                        head, reader, Exchange({}, "/chat/" in head.decode(), writer, server), behaviours
                    )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    listening = await asyncio.start_server(connection, "127.0.0.1", 0)
    server.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        server.gate.set()
        listening.close()


async def _answer_get(writer: asyncio.StreamWriter, metrics: str | None) -> None:
    body = (metrics or "").encode()
    status = "404 Not Found" if metrics is None else "200 OK"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


async def _answer_post(
    head: bytes, reader: asyncio.StreamReader, exchange: Exchange, behaviours: Mapping[str, Behaviour]
) -> None:
    lines = head.decode().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
    body, server = json.loads(await reader.readexactly(length)), exchange.server
    server.bodies.append(body)
    server.arrived.put_nowait(None)
    server.in_flight += 1
    server.most_in_flight = max(server.most_in_flight, server.in_flight)
    try:
        await behaviours[body["model"]](replace(exchange, body=body))
    finally:
        server.in_flight -= 1
