"""A server of the OpenAI protocol that says whatever a test wants, in every place where a server can say something.

The first part of the path chooses among `Server.sayings`, so one server is several. Runs in threads of the test.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = 4


@dataclass
class Says:
    """What one server says. The defaults are those of a server that does everything right."""

    refuses_each: int = 0  # of so many requests one is refused; 0: none
    refusal: str = "{}"
    events: tuple[str, ...] = ()  # in place of the first token, as they are
    text: str = " word"
    finish: str = "length"
    content_type: str = "text/event-stream"
    body: str | None = None  # in place of a stream
    version: str = "1.0"
    metrics: str = "vllm:prompt_tokens_total 1\nvllm:generation_tokens_total 1\n"
    pages: dict[str, int | None] = field(default_factory=dict)  # statuses by path; None: never answers
    refused_resets: int = 0  # so many times it says that its cache is in use, as vLLM does
    asked: int = 0
    got: list[str] = field(default_factory=list)  # paths, in order


class Server(ThreadingHTTPServer):
    daemon_threads = True
    sayings: dict[str, Says]
    over: threading.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        says = self._says()
        pages = {"/health": "", "/version": json.dumps({"version": says.version}), "/metrics": says.metrics}
        if self._page in says.pages:
            self._other(says.pages[self._page])
        elif self._page in pages:
            self._answer(200, "text/plain", pages[self._page])
        else:
            self._answer(404, "text/plain", "")

    def do_POST(self) -> None:
        says, asked = self._says(), json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self._page in says.pages:
            self._other(says.pages[self._page])
        elif not self._page.endswith("completions"):
            says.refused_resets -= 1
            self._answer(200, "application/json", json.dumps({"success": says.refused_resets < 0}))
        else:
            self._complete(says, asked)

    def _says(self) -> Says:
        _, name, page = self.path.split("/", 2)
        self._page, says = f"/{page}", self.server.sayings[name]
        says.got.append(self._page)
        return says

    def _other(self, status: int | None) -> None:
        if status is None:
            self.server.over.wait()
            self.close_connection = True
        else:
            self._answer(status, "text/plain", "no")

    def _complete(self, says: Says, asked: dict[str, Any]) -> None:
        says.asked += 1
        if says.refuses_each and says.asked % says.refuses_each == 0:
            self._answer(400, "application/json", says.refusal)
        elif says.body is not None:
            self._answer(200, says.content_type, says.body)
        else:
            self._answer(200, says.content_type, "".join(f"data: {event}\n\n" for event in self._events(says, asked)))

    def _events(self, says: Says, asked: dict[str, Any]) -> Iterator[str]:
        yield from says.events
        tokens = asked.get("max_tokens", TOKENS)
        for count in range(1, tokens + 1):
            choice = {"index": 0, "text": says.text, "finish_reason": says.finish if count == tokens else None}
            usage = {"prompt_tokens": 7, "completion_tokens": count}
            yield json.dumps({"choices": [choice], "usage": usage})
        yield "[DONE]"

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "surrogatepass")
        self.wfile.write(f"HTTP/1.1 {status} {REASON}\r\nContent-Type: {kind}\r\n".encode("utf-8", "surrogateescape"))
        self.wfile.write(b"X-Odd: \xff\xed\xa0\xbd\r\nSet-Cookie: a=\xff; expires=never\r\n")
        self.wfile.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def log_message(self, *_: Any) -> None:
        pass


REASON = "\udcff as you like"


@contextlib.contextmanager
def serving(**sayings: Says) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.sayings, server.over = sayings, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
