"""Real servers for these tests: the reference target, and a draft model made out of its first layers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from host.ports import free_port
from tests.cli.homes import REPOSITORY

ENGINE_PYTHON = Path(os.environ.get("DRAFTHOUSE_ENGINES_DIR", REPOSITORY / ".engines")) / "vllm" / "bin" / "python"
SCRIPT = REPOSITORY / "workers" / "transformers_server"
TARGET = REPOSITORY / "models" / "target"
MODEL = "tiny"
K = 3
CONTEXT_TOKENS = 1024
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
_START_S = 600.0


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    log: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(log: Path, *options: str | Path) -> Iterator[Server]:
    """A server that begins to load; `ready` waits for it. Ended as by an operator."""
    port = free_port()
    command = (ENGINE_PYTHON, SCRIPT, "--port", str(port), "--served-model-name", MODEL, *options)
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=ENVIRONMENT) as process:
        try:
            yield Server(process, log, port)
        finally:
            process.terminate()
        assert process.wait(_START_S) == 0, log.read_text()


def ended(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program where the server runs, to its end."""
    command = (ENGINE_PYTHON, program, *arguments)
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=_START_S, check=False)


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


async def ready(server: Server) -> str:
    """The URL of a server that has loaded its models."""
    until_s = time.monotonic() + _START_S
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until_s and server.process.poll() is None:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                async with session.get(server.url + "/health") as response:
                    assert response.status == 200
                    return server.url
            await asyncio.sleep(0.1)
    raise AssertionError(f"the server did not start: {server.log.read_text()}")
