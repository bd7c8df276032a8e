"""A server that somebody else runs: it wants a key, knows only OpenAI's own fields, and gossips about the key.

`--gossip` says how: in the body of a refusal, in an error event of a stream, or in its output, cut into pieces.
Prints its port.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from tests.workers.stand_in_server import Handler, Json, Server, Talk

NOT_OPENAI = {"ignore_eos"}


class Strict(Handler):
    """Tells every caller what it was sent, as careless servers do."""

    key: str
    gossip: str
    asked = 0

    def turned_away(self) -> tuple[int, str] | None:
        if self.headers.get("Authorization") != f"Bearer {self.key}":
            return 401, f"wrong key in {self.headers}"
        return (500, "a redirect was followed") if self.path == "/elsewhere" else None

    def _stream(self, body: Json) -> None:
        type(self).asked += 1
        if self.gossip == "redirect":
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.gossip == "refusal" and self.asked > 1:
            padding = "x" * (500 - len("Authorization: Bearer ") - 10)  # an error is cut short within the key
            self._answer(403, f"{padding}Authorization: {self.headers['Authorization']}")
        else:
            super()._stream(body)

    def _event(self, event: Json) -> None:
        if self.gossip == "event" and self.asked > 1:
            event = {"error": {"message": f"no quota for {self.key}"}}
        elif self.gossip == "unreadable" and self.asked > 1:
            return self._chunk(f"data: {{{'x' * 185}{self.key}\n\n".encode())
        elif self.gossip == "output" and event["choices"]:
            return self._in_pieces(event)
        return super()._event(event)

    def _in_pieces(self, event: Json) -> None:
        for piece in (self.key[:4], self.key[4:], " "):
            super()._event({**event, "choices": [{**event["choices"][0], "text": piece}]})


def refuses(body: Json) -> tuple[int, str] | None:
    """Unknown fields are refused, and so is counting in every chunk."""
    if wrong := NOT_OPENAI & set(body) or "continuous_usage_stats" in body["stream_options"]:
        return 400, f"Unrecognized request argument supplied: {wrong}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--key", required=True)
    parser.add_argument("--gossip", default="none")
    given = parser.parse_args()
    Strict.key, Strict.gossip = given.key, given.gossip
    pages: dict[str, Any] = {"/version": lambda: json.dumps({"version": f"9.9+{given.key}"})}
    server = Server("127.0.0.1", 0, Talk(pages, refuses=refuses), Strict)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
