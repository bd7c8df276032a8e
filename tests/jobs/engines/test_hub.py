"""A model's name is asked of the model hub: only a clear no is an error. The hub is a server of this test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

#: By the model's name: the status, and the error code that the hub sends with it.
ANSWERS = {
    "lab/there": (200, ""),
    "lab/gated": (403, "GatedRepo"),
    "lab/none": (404, "RepoNotFound"),
    "lab/hidden": (401, "RepoNotFound"),
    "lab/broken": (500, ""),
}
#: On a busy machine the hub may answer late, and the second question come late.
ASK = """
from jobs.engines import models
from jobs.engines.models import check_hub_model, is_unanswered
from lab.errors import UserError
models._HUB_TIMEOUT_S = models._REMEMBER_S = 600.0
for name in {names!r}:
    try:
        check_hub_model(name)
        check_hub_model(name)  # remembered
        print(name, "passes, unchecked" if is_unanswered(name) else "passes")
    except UserError as refused:
        print(refused)
"""


class Hub(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - a handler is made for each request

    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/models/")
        self.asked.append(name)
        status, code = ANSWERS[name]
        body = f'{{"id": "{name}", "siblings": []}}'.encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def answers(home: Path, hub: str, **more: str) -> list[str]:
    """In a process of its own, because the hub's library reads its environment once."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_ENDPOINT": hub, **more}
    words = (sys.executable, "-c", ASK.format(names=list(ANSWERS)))
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_only_a_model_that_the_hub_lacks_is_refused(tmp_path: Path, hub: str) -> None:
    there, gated, none, hidden, broken = answers(tmp_path, hub, HF_HUB_OFFLINE="0")
    assert [there, gated, broken] == ["lab/there passes", "lab/gated passes", "lab/broken passes, unchecked"]
    assert none.startswith("the model hub has no model 'lab/none' that may be read from here: correct the name")
    assert hidden.startswith("the model hub has no model 'lab/hidden'")
    assert Hub.asked.count("lab/none") == 1
    assert answers(tmp_path, hub, HF_HUB_OFFLINE="1") == [f"{name} passes, unchecked" for name in ANSWERS]
