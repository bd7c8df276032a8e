"""The server's description of itself, and the reasons why it does not start."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.workers.transformers_server.servers import ENGINE_PYTHON, MODEL, SCRIPT, TARGET, K, Pair, ended, make_broken

pytestmark = pytest.mark.engine


async def get(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        return dict(await response.json())


async def test_the_version_tells_what_is_in_use(assisted: str) -> None:
    configuration = await get(assisted + "/version")
    installed = (ENGINE_PYTHON.parent.parent / "lib").glob("python3*/site-packages/*.dist-info")
    versions = {path.name.removesuffix(".dist-info").split("-")[0]: path.name for path in installed}
    assert versions["transformers"] == f"transformers-{configuration['transformers']}.dist-info"
    assert versions["torch"] == f"torch-{configuration['torch']}.dist-info"
    assert configuration["version"] == configuration["transformers"]
    assert (configuration["method"], configuration["num_speculative_tokens"]) == ("draft_model", K)
    assert configuration["dtype"] == "float32"


async def test_the_model_is_listed_by_its_served_name(assisted: str, pair: Pair) -> None:
    listed = await get(assisted + "/v1/models")
    (model,) = listed["data"]
    assert (model["id"], model["root"], model["max_model_len"]) == (MODEL, str(pair.target), 1024)


def test_it_refuses_to_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = {
            "lacks weights, for example model.layers.4.": ("--model", make_broken(tmp_path)),
            f"cannot listen on 127.0.0.1:{port}": ("--model", TARGET, "--port", port),
            "set how many tokens to draft in each round": ("--model", TARGET, "--prompt-lookup"),
        }
        for sentence, options in refused.items():
            done = ended(SCRIPT, *options)
            assert done.returncode == 2
            assert sentence in done.stderr
            assert "Traceback" not in done.stderr
