"""Asking a server: bodies with small overrides, whole streams, counters."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from tests.workers.homes import PATIENCE_S
from tests.workers.transformers_server.servers import MODEL

PROMPT = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return"
Json = dict[str, Any]


def body(**changes: Any) -> Json:
    whole = {"model": MODEL, "prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    return whole | changes


def streamed(**changes: Any) -> Json:
    options = {"include_usage": True, "continuous_usage_stats": True}
    return body(stream=True, stream_options=options) | changes


def chat(**changes: Any) -> Json:
    whole = body(messages=[{"role": "user", "content": PROMPT}]) | changes
    del whole["prompt"]
    return whole


async def post(url: str, request: Any, path: str = "/v1/completions") -> tuple[int, Json]:
    async with aiohttp.ClientSession() as session, session.post(url + path, json=request) as response:
        return response.status, await response.json()


async def complete(url: str, **changes: Any) -> Json:
    status, answer = await post(url, body(**changes))
    assert status == 200, answer
    return answer


async def text_of(url: str, **changes: Any) -> str:
    return str((await complete(url, **changes))["choices"][0]["text"])


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    async for line in response.content:
        if line.strip():
            yield line.decode().removeprefix("data: ").rstrip("\n")


async def stream(url: str, request: Json, path: str = "/v1/completions") -> list[Json]:
    """All events of a stream that ends with [DONE]."""
    async with aiohttp.ClientSession() as session, session.post(url + path, json=request) as response:
        assert response.status == 200, await response.text()
        *data, done = [event async for event in events(response)]
    assert done == "[DONE]"
    return [json.loads(event) for event in data]


async def metrics(url: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    async with aiohttp.ClientSession() as session, session.get(url + "/metrics") as response:
        lines = (await response.text()).splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


async def until(condition: Callable[[dict[str, float]], bool], url: str) -> dict[str, float]:
    """The metrics as soon as they fulfil the condition."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition(counters := await metrics(url)):
        assert time.monotonic() < deadline_s, counters
        await asyncio.sleep(0.01)  # between two looks
    return counters


async def grown(url: str, work: Awaitable[Any]) -> dict[str, float]:
    """By how much each counter grew during the work."""
    before = await metrics(url)
    await work
    after = await metrics(url)
    return {name: value - before[name] for name, value in after.items()}
