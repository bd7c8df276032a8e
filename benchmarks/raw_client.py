"""The least that a client of streamed answers must do, as a process of its own: argv[1] is the run as JSON.

One selector and raw sockets: it notes when each piece of an answer came, and parses nothing but its end.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_END = b"0\r\n\r\n"


@dataclass(eq=False)
class _Stream:
    connection: socket.socket
    sent_s: float = 0.0
    first_s: float = 0.0
    tail: bytes = b""


def measured(base_url: str, dataset: str, output_tokens: int, concurrency: int) -> dict[str, float]:
    """Send every prompt of the file, as many at once as asked for, and return the figures that all clients report."""
    address = urlsplit(base_url)
    lines = Path(dataset).read_text(encoding="utf-8").splitlines()
    requests = [_request(json.loads(line)["prompt"], output_tokens) for line in lines]
    count, selector = len(requests), selectors.DefaultSelector()
    began_s = 0.0
    ttfts_s: list[float] = []
    tpots_s: list[float] = []
    for _ in range(min(concurrency, count)):
        connection = socket.create_connection((address.hostname or "", address.port or 80))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, _Stream(connection))
    for key in list(selector.get_map().values()):
        _send(key.data, requests)
        began_s = began_s or key.data.sent_s
    ended_s = began_s
    while len(ttfts_s) < count:
        for key, _ in selector.select():
            stream = key.data
            received, now_s = stream.connection.recv(1 << 16), time.perf_counter()
            if not received:
                raise ConnectionError("the server closed a stream")
            stream.first_s = stream.first_s or now_s
            stream.tail = (stream.tail + received)[-len(_END) :]
            if stream.tail == _END:
                ended_s = now_s
                ttfts_s.append(stream.first_s - stream.sent_s)
                tpots_s.append((now_s - stream.first_s) / (output_tokens - 1))
                if requests:
                    _send(stream, requests)
                else:
                    selector.unregister(stream.connection)
                    stream.connection.close()
    return {
        "output_tok_per_s": count * output_tokens / (ended_s - began_s),
        "ttft_ms": 1000 * statistics.median(ttfts_s),
        "tpot_ms": 1000 * statistics.median(tpots_s),
        "gap_p99_ms": 0.0,
    }


def _send(stream: _Stream, requests: list[bytes]) -> None:
    stream.sent_s, stream.first_s, stream.tail = time.perf_counter(), 0.0, b""
    stream.connection.sendall(requests.pop())


def _request(prompt: str, output_tokens: int) -> bytes:
    body = json.dumps({"model": "steady", "prompt": prompt, "max_tokens": output_tokens, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: steady\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    print(json.dumps({"figures": measured(**json.loads(sys.argv[1]))}))
