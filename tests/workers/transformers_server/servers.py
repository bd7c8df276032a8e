"""Real servers for these tests: the reference target, and a draft model made out of its first layers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.cli.homes import REPOSITORY

ENGINE_PYTHON = Path(os.environ.get("DRAFTHOUSE_ENGINES_DIR", REPOSITORY / ".engines")) / "vllm" / "bin" / "python"
SCRIPT = REPOSITORY / "workers" / "transformers_server"
TARGET = REPOSITORY / "models" / "target"
MODEL = "tiny"
K = 3
CONTEXT_TOKENS = 1024
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
_START_S = 100.0


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Pair:
    target: Path
    draft: Path


def make_pair(folder: Path) -> Pair:
    """The draft model reads the target's weights but stops after three of its four layers."""
    return Pair(_linked(folder / "target"), _linked(folder / "draft", num_hidden_layers=3))


def make_broken(folder: Path) -> Path:
    """A model whose configuration promises one layer more than there are weights for."""
    return _linked(folder / "broken", num_hidden_layers=5)


def _linked(folder: Path, **changes: int) -> Path:
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).symlink_to(TARGET / name)
    config = json.loads((TARGET / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, *_blank_ids()]}))
    return folder


def _blank_ids() -> list[int]:
    """Tokens that begin with a space or a line's end. They end answers in these tests: every text comes to one soon."""
    vocabulary = json.loads((TARGET / "tokenizer.json").read_text())["model"]["vocab"]
    return [number for token, number in vocabulary.items() if token.startswith(("\u0120", "\u010a"))]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def command(*options: str | Path) -> tuple[str, ...]:
    return (str(ENGINE_PYTHON), str(SCRIPT), *map(str, options))


def start(folder: Path, *options: str | Path) -> Server:
    """A server that begins to load; `ready` waits for it, `stop` ends it."""
    port, log = free_port(), folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command("--port", str(port), "--served-model-name", MODEL, *options),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
        )
    return Server(process, port, log)


def stop(servers: Iterable[Server]) -> None:
    """As an operator would, all at once."""
    running = list(servers)
    for server in running:
        server.process.terminate()
    for server in running:
        assert server.process.wait(180) == 0, server.log.read_text()


def run(*options: str | Path) -> subprocess.Popen[str]:
    """A server that is expected to refuse; what it says comes out of `communicate`."""
    environment = {**os.environ, **_ENVIRONMENT}
    return subprocess.Popen(command(*options), stderr=subprocess.PIPE, text=True, env=environment)


async def ready(server: Server) -> str:
    """The URL of a server that has loaded its models."""
    until_s = time.monotonic() + _START_S
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until_s and server.process.poll() is None:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                async with session.get(server.url + "/health") as response:
                    assert response.status == 200
                    return server.url
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(0.1)
    raise AssertionError(f"the server did not start: {server.log.read_text()}")
