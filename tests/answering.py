"""Somebody else's HTTP server, in a test's own process, that answers what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Status, headers, and the pieces of the body.
Answer = tuple[int, Mapping[str, str], Iterable[bytes]]
EMPTY: Answer = (200, {}, ())


@contextmanager
def answering(answer: Callable[[str], Answer], port: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Answer requests by their path, and hang up after each; gives the address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, headers, pieces = answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                for piece in pieces:
                    self.wfile.write(piece)

        do_POST = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
