"""Engines answer whoever has their key, which other users of the host do not have."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from host.ports import free_port
from jobs.engines.profiles import KEY
from workers.engine_runtime import engine_key
from workers.engine_runtime.engine_key import FILE, answers_anybody, key_folder, new_key, with_key
from workers.load.client import Endpoint

#: A server as those of vLLM, SGLang and TensorRT-LLM, by uvicorn, which has to start before it answers.
SERVER = """
import contextlib, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.word = "started"
    yield

async def answer(request):
    return PlainTextResponse(request.app.state.word)

app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])], lifespan=lifespan)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""
ADDRESSES = [("GET", "/health"), ("GET", "/metrics"), ("POST", "/collective_rpc"), ("POST", "/v1/completions")]


@contextmanager
def serving(variables: dict[str, str]) -> Iterator[str]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    with subprocess.Popen((sys.executable, "-c", SERVER, str(port)), env=environment) as server:
        url, until_s = f"http://127.0.0.1:{port}", time.monotonic() + 600
        while _asked(url, "GET", "/", None)[0] == 0:
            assert server.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.05)
        yield url
        server.terminate()


def _asked(url: str, method: str, path: str, key: str | None) -> tuple[int, bytes]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(url + path, method=method, headers=headers)  # noqa: S310 - ours
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - ours
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


async def test_an_engine_answers_with_its_key_alone(tmp_path: Path) -> None:
    key = new_key()
    with serving(with_key(tmp_path, key, {})) as url:
        for method, path in ADDRESSES:
            assert _asked(url, method, path, key) == (200, b"started")
            assert _asked(url, method, path, None) == (401, b"")
            assert _asked(url, method, path, new_key()) == (401, b"")
        assert not await answers_anybody(Endpoint(url, "model"))


async def test_an_engine_that_takes_no_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_key, "_PAGE_TIMEOUT", aiohttp.ClientTimeout(total=600))
    with serving({}) as url:
        assert await answers_anybody(Endpoint(url, "model"))


def test_the_engines_own_file_of_that_name_runs_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / FILE.name).write_text("print('the other one')\n")
    variables = with_key(tmp_path, new_key(), {"PYTHONPATH": str(own)})
    assert variables["PYTHONPATH"] == f"{key_folder(tmp_path)}:{own}"
    printed = subprocess.check_output((sys.executable, "-c", ""), env={**os.environ, **variables}, text=True)
    assert printed == "the other one\n"


@pytest.mark.parametrize("content", [None, "an older one"])
def test_the_file_that_asks_for_the_key_is_where_engines_look(tmp_path: Path, content: str | None) -> None:
    place = key_folder(tmp_path) / FILE.name
    if content is not None:
        place.parent.mkdir(parents=True)
        place.write_text(content)
    assert with_key(tmp_path, "a key", {})[KEY] == "a key"
    assert place.read_bytes() == FILE.read_bytes()
