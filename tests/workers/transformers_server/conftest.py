"""One server of each kind for all tests here; they load side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.workers.transformers_server.servers import K, Pair, Server, make_pair, ready, serving


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def servers(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    k, logs = ("--num-speculative-tokens", str(K)), tmp_path_factory.mktemp("servers")
    options: dict[str, tuple[str | Path, ...]] = {
        "plain": ("--model", pair.target),
        "assisted": ("--model", pair.target, "--assistant-model", pair.draft, *k),
        "lookup": ("--model", pair.target, "--prompt-lookup", *k),
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(logs / f"{name}.log", *own)) for name, own in options.items()}


@pytest.fixture
async def plain(servers: dict[str, Server]) -> str:
    return await ready(servers["plain"])


@pytest.fixture
async def assisted(servers: dict[str, Server]) -> str:
    return await ready(servers["assisted"])


@pytest.fixture
async def lookup(servers: dict[str, Server]) -> str:
    return await ready(servers["lookup"])


@pytest.fixture(params=["plain", "assisted", "lookup"])
async def any_server(servers: dict[str, Server], request: pytest.FixtureRequest) -> str:
    """The test runs once on each server."""
    return await ready(servers[request.param])


@pytest.fixture(params=["assisted", "lookup"])
async def speculating(servers: dict[str, Server], request: pytest.FixtureRequest) -> str:
    """The test runs once on each server that speculates."""
    return await ready(servers[request.param])
