"""An engine is ready once it has answered a request: some report health and die on the first one."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from jobs.datasets.prompt import Prompt
from jobs.engines.kind import Kind
from lab.errors import EngineError
from lab.metrics.records import RequestRecord
from lab.storable import MOST_CHARS, storable
from lab.study import Sampling
from workers.load.client import Endpoint, RequestParams, open_session, read_page, send
from workers.load.connections import Connections

logger = logging.getLogger(__name__)
_POLL_EVERY_S = 0.1
_PAGE_TIMEOUT = aiohttp.ClientTimeout(total=5)
#: Of version and models, which are asked for once: without them a run fails, or its engine is unknown.
_ONCE_TIMEOUT = aiohttp.ClientTimeout(total=30)
#: An engine that failed to answer is often about to die, and only then logs why.
_DEATH_SHOWS_WITHIN_S = 10.0
_FIRST_ANSWER_TIMEOUT_S = 600.0
_HELLO = Prompt("hello", None, "Say hello.")
#: More than one token, so that speculation has had to draft and verify.
_HELLO_TOKENS = 8
#: Keys of the request that studies do not depend on, and the endpoint's field that turns each off.
_UNASKED: dict[str, Any] = {"continuous_usage": False, "token_ids": False, "neutral_keys": False, "further": {}}
#: What servers differ in: the name of a needed key, and whether usage has to be requested.
_RENAMED: dict[str, Any] = {"limit_key": "max_completion_tokens"}
_USAGE_UNASKED: dict[str, Any] = {"usage_option": False}
_MOST_CHARS_OF_VERSION = 200
#: How a server rejects an unknown key of the request.
_UNKNOWN_KEY = ("HTTP 400", "HTTP 422")
_NO_CONNECTION = "could not connect"
#: How the first request to a foreign server fails while the server or the proxy before it starts, or has too much to
#: do, and for how long at most that is waited for. A gateway gives 504 while a server behind it is started.
_PASSING = {"HTTP 503": math.inf, "HTTP 504": math.inf, "HTTP 502": 30.0, "HTTP 429": 30.0, _NO_CONNECTION: 3.0}
_ASK_AGAIN_EVERY_S = 0.5
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True)
class Ready:
    """A server that has answered. `endpoint` includes what the answer revealed about it."""

    endpoint: Endpoint
    version: str | None  # if it reports one


async def wait_until_ready(endpoint: Endpoint, kind: Kind, why_dead: Callable[[], str | None]) -> Ready:
    """Wait until the engine has answered one request. Raises EngineError."""
    async with open_session(endpoint) as session, endpoint.connections() as connections:
        while not await is_healthy(endpoint, session):
            _raise_if_dead(why_dead)
            await asyncio.sleep(_POLL_EVERY_S)
        if not kind.takes_model_name:
            endpoint = replace(endpoint, model=await _served_model(session, endpoint))
        endpoint, record = await _understood(connections, endpoint)
        if record.error is not None:
            for _ in range(round(_DEATH_SHOWS_WITHIN_S / _POLL_EVERY_S)):
                _raise_if_dead(why_dead)
                await asyncio.sleep(_POLL_EVERY_S)
            raise EngineError(f"the engine started, but did not answer its first request: {record.error}")
        return Ready(endpoint, await _version(session, endpoint, kind))


async def reach(endpoint: Endpoint, kind: Kind, timeout_s: float) -> Ready:
    """Wait for one answer of a foreign server, up to `timeout_s` while it says that it is loading, and a moment if it
    is busy or refuses connections. Raises EngineError.
    """
    began_s = time.monotonic()
    async with open_session(endpoint) as session, endpoint.connections() as connections:
        while True:
            endpoint, record = await _understood(connections, endpoint)
            if record.error is None:
                has_pages = endpoint.proxy is None
                return Ready(endpoint, await _version(session, endpoint, kind) if has_pages else None)
            patience_s = next((s for begins, s in _PASSING.items() if record.error.startswith(begins)), 0.0)
            if time.monotonic() - began_s >= min(timeout_s, patience_s):
                break
            await asyncio.sleep(_ASK_AGAIN_EVERY_S)
    waited_s = time.monotonic() - began_s
    waited = f" (it was polled for {waited_s:.0f} s)" if waited_s >= 1 else ""
    why = f"{record.error}{waited}{_unused_proxy(record.error)}"
    raise EngineError(f"the server at {endpoint.base_url} did not answer a request: {why}")


def _unused_proxy(error: str) -> str:
    """Return that a proxy of the environment is not used, if there is one and no connection could be made."""
    names = [name for name in _PROXIES if os.environ.get(name)]
    if not names or not error.startswith(_NO_CONNECTION):
        return ""
    return f" ({', '.join(names)} of the worker's environment is not used: set proxy in the arm's server)"


async def is_healthy(endpoint: Endpoint, session: aiohttp.ClientSession | None = None) -> bool:
    """Return whether the engine answers at /health, in a session of its own unless one is given."""
    if session is None:
        async with open_session(endpoint) as own:
            return await is_healthy(endpoint, own)
    try:
        async with session.get(f"{endpoint.base_url}/health", timeout=_PAGE_TIMEOUT, allow_redirects=False) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _understood(connections: Connections, endpoint: Endpoint) -> tuple[Endpoint, RequestRecord]:
    """Send a greeting, and repeat it without optional keys that the server rejects, or with other names: each alone
    first, then all. Return what it understands, and its last answer.
    """
    first = await _hello(connections, endpoint)
    if first.error is None or not first.error.startswith(_UNKNOWN_KEY):
        return endpoint, first
    asks = {name: none for name, none in _UNASKED.items() if getattr(endpoint, name) != none}
    each = [{name: none} for name, none in asks.items()]
    for changes in (*each, _RENAMED, asks, asks | _RENAMED, _USAGE_UNASKED, asks | _RENAMED | _USAGE_UNASKED):
        changed = replace(endpoint, **changes)
        record = await _hello(connections, changed)
        if record.error is None or not (record.error.startswith(_UNKNOWN_KEY) or "usage_option" in changes):
            return changed, record
    return endpoint, first


async def _hello(connections: Connections, endpoint: Endpoint) -> RequestRecord:
    """Send a short request. Without ignore_eos to a foreign server, which may not know it: the answer may end early."""
    params = RequestParams(
        Sampling(), _HELLO_TOKENS, ignore_eos=not endpoint.foreign, timeout_s=_FIRST_ANSWER_TIMEOUT_S
    )
    return await send(connections, endpoint, _HELLO, params, asyncio.get_running_loop().time)


def _raise_if_dead(why_dead: Callable[[], str | None]) -> None:
    if (why := why_dead()) is not None:
        raise EngineError(why)


async def _version(session: aiohttp.ClientSession, endpoint: Endpoint, kind: Kind) -> str | None:
    """Return the server's version; None if no page reports it."""
    for path in kind.version_paths:
        answer = await _json(session, endpoint, path)
        if isinstance(answer, dict) and isinstance(answer.get("version"), str):
            return storable(endpoint.hide_key(answer["version"]), _MOST_CHARS_OF_VERSION)
    return None


async def _served_model(session: aiohttp.ClientSession, endpoint: Endpoint) -> str:
    answer = await _json(session, endpoint, "/v1/models")
    try:
        name = str(answer["data"][0]["id"])
    except (TypeError, LookupError):
        raise EngineError("the engine does not say at /v1/models under which name it serves the model") from None
    if len(name) > MOST_CHARS:  # each request repeats it
        raise EngineError(f"the engine's name for its model at /v1/models has {len(name):,} characters")
    return name


async def _json(session: aiohttp.ClientSession, endpoint: Endpoint, path: str) -> Any:
    """Return the content of a page; None if there is none."""
    try:
        async with session.get(f"{endpoint.base_url}{path}", timeout=_ONCE_TIMEOUT, allow_redirects=False) as response:
            return json.loads(await read_page(response)) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError):
        return None
    except Exception:
        logger.exception("%s could not be read", path)
        return None
