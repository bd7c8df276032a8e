"""One server of each kind for all tests here; they load side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workers.transformers_server.servers import K, Pair, Server, make_pair, ready, start, stop


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def servers(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Started together, because each needs seconds for its imports."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("plain", "assisted", "lookup")}
    k = ("--num-speculative-tokens", str(K))
    started = {
        "plain": start(folders["plain"], "--model", pair.target),
        "assisted": start(folders["assisted"], "--model", pair.target, "--assistant-model", pair.draft, *k),
        "lookup": start(folders["lookup"], "--model", pair.target, "--prompt-lookup", *k),
    }
    yield started
    stop(started.values())


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
async def each(servers: dict[str, Server], request: pytest.FixtureRequest) -> str:
    """The test runs once on each server."""
    return await ready(servers[request.param])


@pytest.fixture(params=["assisted", "lookup"])
async def speculating(servers: dict[str, Server], request: pytest.FixtureRequest) -> str:
    """The test runs once on each server that speculates."""
    return await ready(servers[request.param])
