"""A server that streams a chunk to every stream at each tick, and notes when: a process of its own.

It speaks just enough of vLLM's protocol for both clients: a completion streamed with the server's running count. All
answers are bytes made beforehand, and one thread writes them to all sockets at each tick, so that it keeps time where a
framework would not. When it ends it prints the gaps between the chunks of a stream as it wrote them, and of each answer
when its request was there, when its first and last chunk were written, and how many chunks it has.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field

import numpy as np

_WORD = " word"
_LENGTH = re.compile(rb'"max_tokens": ?(\d+)')


@dataclass(eq=False)
class _Stream:
    """One connection: the received part of its request, and the remaining chunks of its answer."""

    connection: socket.socket
    read: bytes = b""
    asked_s: float = 0.0  # when the request was there
    first_s: float = 0.0  # when the first chunk of this answer was written
    chunks: int = 0
    sent_s: float | None = None  # when the last chunk of this answer was written
    left: list[bytes] = field(default_factory=list)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(text: str, count: int, tokens: int, finish: str | None) -> dict[str, object]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
    choice |= {"token_ids": [1000 + count], "prompt_logprobs": None, "prompt_token_ids": None}
    usage = {"prompt_tokens": 16, "total_tokens": 16 + tokens, "completion_tokens": tokens}
    head = {"id": "cmpl-9f3c2f0f8f6b4a0c9f0c1a2b3c4d5e6f", "object": "text_completion", "created": 1790000000}
    return {**head, "model": "steady", "choices": [choice], "usage": usage}


@functools.cache
def answer(tokens: int) -> tuple[bytes, ...]:
    """Return the chunks of an answer in the order in which they are to be popped; the head comes with the first."""

    def sse(event: dict[str, object]) -> bytes:
        return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"

    chunks = [
        _chunk(sse(_event(_WORD, place, place, "length" if place == tokens else None)))
        for place in range(1, tokens + 1)
    ]
    last = _event("", tokens, tokens, None) | {"choices": []}
    chunks[0] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + chunks[0]
    chunks[-1] += _chunk(sse(last)) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return tuple(chunks[::-1])


def _read(stream: _Stream) -> bool:
    """Read a request; an answer begins at the next tick when all of it has arrived. False if the client went away."""
    try:
        received = stream.connection.recv(1 << 16)
    except ConnectionResetError:  # it closed without reading the end of an answer
        return False
    stream.read += received
    head, end, body = stream.read.partition(b"\r\n\r\n")
    if end:
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0]) if lengths else 0
        if len(body) >= length:
            stream.read = body[length:]
            if head.startswith(b"POST"):
                match = _LENGTH.search(body)
                stream.left, stream.sent_s = list(answer(int(match[1]) if match else 16)), None
                stream.asked_s, stream.chunks = time.perf_counter(), len(stream.left)
            else:
                stream.connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    return bool(received)


def main(tick_s: float) -> None:
    selector, listener = selectors.DefaultSelector(), socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(listener.getsockname()[1], flush=True)
    streams = set[_Stream]()
    gaps_s: list[float] = []
    answers: list[tuple[float, float, float, int]] = []
    next_s = time.perf_counter() + tick_s
    try:
        while True:
            for key, _ in selector.select(max(0.0, next_s - time.perf_counter())):
                if key.data is None:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(connection, selectors.EVENT_READ, _Stream(connection))
                elif not _read(key.data):
                    selector.unregister(key.data.connection)
                    key.data.connection.close()
                    streams.discard(key.data)
                elif key.data.left:
                    streams.add(key.data)
            if (now_s := time.perf_counter()) >= next_s:
                next_s = max(next_s + tick_s, now_s)
                for stream in list(streams):
                    before_s, stream.sent_s = stream.sent_s, time.perf_counter()
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the next read closes it
                        stream.connection.send(stream.left.pop())
                    if before_s is None:
                        stream.first_s = stream.sent_s
                    else:
                        gaps_s.append(stream.sent_s - before_s)
                    if not stream.left:
                        answers.append((stream.asked_s, stream.first_s, stream.sent_s, stream.chunks))
                        streams.discard(stream)
    finally:
        ms = np.array(gaps_s) * 1000
        gaps = {"gap_mean_ms": float(ms.mean()), "gap_p99_ms": float(np.percentile(ms, 99))}
        print(json.dumps(gaps | {"answers": answers}))


if __name__ == "__main__":
    main(float(sys.argv[1]))
