"""What the stand-ins for engines have in common: a real HTTP server that streams counted tokens.

Standard library only, because they run as an engine's process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROMPT_TOKENS = 5
Json = dict[str, Any]


@dataclass
class Talk:
    """How one stand-in answers. Pages are made anew at each look; None is a page that is not there."""

    pages: Mapping[str, Callable[[], str | None]]
    refuses: Callable[[Json], tuple[int, str] | None] = lambda _body: None
    accepted_each_round: int = 0  # tokens that each round adds to its own one
    drafted_each_round: int = 0
    last_events: Callable[[Json, int, int], list[Json]] = lambda _body, _rounds, _accepted: []
    counts: Callable[[int], int] = lambda tokens: tokens  # what usage says of a number of tokens
    prompt_tokens: int = 0
    generated: int = 0
    rounds: int = 0
    accepted: int = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def parse_request(self) -> bool:
        """An engine that Drafthouse starts asks for its key."""
        if not super().parse_request():
            return False
        key = os.environ.get("ENGINE_KEY_OF_DRAFTHOUSE")
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.close_connection = True
        self._answer(401, "")
        return False

    def do_GET(self) -> None:
        page = self.server.talk.pages.get(self.path, lambda: None)()
        self._answer(404 if page is None else 200, page or "")

    def do_POST(self) -> None:
        talk = self.server.talk
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if (away := self.turned_away()) is not None:
            self._answer(*away)
        elif not self.path.startswith("/v1/"):
            self.do_GET()
        elif (refused := talk.refuses(json.loads(body))) is not None:
            self._answer(*refused)
        else:
            self._stream(json.loads(body))

    def turned_away(self) -> tuple[int, str] | None:
        """Status and text for whoever is not let in."""
        return None

    def _stream(self, body: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in self._events(body):
            self._event(event)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _events(self, body: Json) -> Iterator[Json]:
        talk, tokens = self.server.talk, body.get("max_tokens") or body["max_completion_tokens"]
        talk.prompt_tokens += PROMPT_TOKENS
        rounds = accepted = 0
        for done, accepted_tokens in _rounds(tokens, talk.accepted_each_round):
            rounds, accepted = rounds + 1, accepted + accepted_tokens
            yield self._output(body, done, "length" if done == tokens else None)
        talk.generated += tokens
        talk.rounds += rounds
        talk.accepted += accepted
        yield from talk.last_events(body, rounds, accepted)
        yield {"choices": [], "usage": self._usage(tokens)}

    def _output(self, body: Json, done: int, finish: str | None) -> Json:
        """Tokens are counted in each chunk only for whoever asks."""
        content = {"delta": {"content": " word"}} if "messages" in body else {"text": " word"}
        counted = body.get("stream_options", {}).get("continuous_usage_stats")
        usage = {"usage": self._usage(done)} if counted else {"usage": None}
        return {"choices": [{"index": 0, **content, "finish_reason": finish}], **usage}

    def _usage(self, tokens: int) -> Json:
        return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": self.server.talk.counts(tokens)}

    def _event(self, event: Json) -> None:
        self._chunk(f"data: {json.dumps(event)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 512  # connections that come before it is their turn

    def __init__(self, host: str, port: int, talk: Talk, handler: type[Handler] = Handler) -> None:
        super().__init__((host, port), handler)
        self.talk = talk


def _rounds(tokens: int, accepted_each: int) -> Iterator[tuple[int, int]]:
    """Tokens so far and accepted ones of each round; the last round is cut where the answer is full."""
    done = 0
    while done < tokens:
        new = min(1 + accepted_each, tokens - done)
        done += new
        yield done, new - 1
