"""Ready means that a request was answered: some engines report health and die on the first one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiohttp

from lab.errors import EngineError
from lab.study import Sampling
from workers.load.client import Ask, Endpoint, open_session, send
from workers.workloads import Prompt

_LOOK_EVERY_S = 0.1
_LOOK_TIMEOUT = aiohttp.ClientTimeout(total=5)
#: An engine that failed to answer is often on its way down, and its log says why only then.
_LAST_WORDS_S = 3.0
_FIRST_ANSWER_TIMEOUT_S = 600.0
_HELLO = Prompt("hello", None, "Say hello.")
#: More than one token, so that speculation has had to draft and verify.
_HELLO_TOKENS = 8


async def wait_until_ready(endpoint: Endpoint, why_dead: Callable[[], str | None]) -> str | None:
    """Wait until the engine has answered one request; returns its version where it tells. Raises EngineError."""
    async with open_session() as session:
        while not await is_healthy(endpoint, session):
            _raise_if_dead(why_dead)
            await asyncio.sleep(_LOOK_EVERY_S)
        await _say_hello(session, endpoint, why_dead)
        return await _version(session, endpoint)


async def is_healthy(endpoint: Endpoint, session: aiohttp.ClientSession | None = None) -> bool:
    """Whether the engine says so at /health, in a session of its own if none is given."""
    if session is None:
        async with open_session() as own:
            return await is_healthy(endpoint, own)
    try:
        async with session.get(f"{endpoint.base_url}/health", timeout=_LOOK_TIMEOUT) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _say_hello(session: aiohttp.ClientSession, endpoint: Endpoint, why_dead: Callable[[], str | None]) -> None:
    ask = Ask(Sampling(), _HELLO_TOKENS, ignore_eos=True, timeout_s=_FIRST_ANSWER_TIMEOUT_S)
    record = await send(session, endpoint, _HELLO, ask, asyncio.get_running_loop().time)
    if record.error is None:
        return
    for _ in range(round(_LAST_WORDS_S / _LOOK_EVERY_S)):
        _raise_if_dead(why_dead)
        await asyncio.sleep(_LOOK_EVERY_S)
    raise EngineError(f"the engine started, but did not answer its first request: {record.error}")


def _raise_if_dead(why_dead: Callable[[], str | None]) -> None:
    if (why := why_dead()) is not None:
        raise EngineError(why)


async def _version(session: aiohttp.ClientSession, endpoint: Endpoint) -> str | None:
    """vLLM tells at /version; None where there is no such page."""
    try:
        async with session.get(f"{endpoint.base_url}/version", timeout=_LOOK_TIMEOUT) as response:
            return str(json.loads(await response.text())["version"]) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
        return None
