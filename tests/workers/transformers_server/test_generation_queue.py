"""One generation at a time; clients that disconnect; generations that fail."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.workers.transformers_server.asks import complete, events, grown, metrics, post, stream, streamed, until

pytestmark = pytest.mark.engine

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_ABORTED = 'drafthouse:request_failure_total{reason="abort"}'
_FAILED = 'drafthouse:request_failure_total{reason="error"}'
#: Seconds of work for the small target.
_LONG = 900
#: So near to zero that the logits divided by it overflow, and sampling from them fails.
_BREAKS: dict[str, Any] = {"temperature": 1e-45, "seed": 0}


async def test_a_second_request_waits_for_the_first(assisted: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(assisted + "/v1/completions", json=streamed(max_tokens=_LONG)) as first,
    ):
        arriving = events(first)
        await anext(arriving)
        second = asyncio.create_task(complete(assisted, max_tokens=4))
        await until(lambda counters: counters[_WAITING] == 1 and counters[_RUNNING] == 1, assisted)
        assert not second.done()
        rest = [event async for event in arriving]
        assert rest[-1] == "[DONE]"
        assert (await second)["usage"]["completion_tokens"] == 4
    await until(lambda counters: counters[_WAITING] == counters[_RUNNING] == 0, assisted)


@pytest.mark.parametrize("form", ["streamed", "whole"])
async def test_a_client_that_leaves_stops_its_generation(any_server: str, form: str) -> None:
    before = await metrics(any_server)
    ask = (
        stream(any_server, streamed(max_tokens=_LONG)) if form == "streamed" else complete(any_server, max_tokens=_LONG)
    )
    leaving: asyncio.Task[Any] = asyncio.create_task(ask)
    await until(
        lambda counters: counters["vllm:generation_tokens_total"] > before["vllm:generation_tokens_total"], any_server
    )
    leaving.cancel()
    await asyncio.wait([leaving])
    after = await until(lambda counters: counters[_RUNNING] == 0, any_server)
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] < _LONG
    assert after[_ABORTED] == before[_ABORTED] + 1
    assert (await complete(any_server, max_tokens=3))["usage"]["completion_tokens"] == 3


async def test_a_client_that_leaves_the_queue_is_never_served(assisted: str) -> None:
    before = await metrics(assisted)
    first = asyncio.create_task(complete(assisted, max_tokens=_LONG))
    await until(lambda counters: counters[_RUNNING] == 1, assisted)
    leaving = asyncio.create_task(stream(assisted, streamed()))
    await until(lambda counters: counters[_WAITING] == 1, assisted)
    leaving.cancel()
    await asyncio.wait([leaving])
    await until(lambda counters: counters[_WAITING] == 0 and counters[_RUNNING] == 1, assisted)
    answer = await first
    after = await metrics(assisted)
    assert after["vllm:prompt_tokens_total"] - before["vllm:prompt_tokens_total"] == answer["usage"]["prompt_tokens"]


async def test_a_generation_that_breaks_is_an_error_and_no_success(any_server: str) -> None:
    broken: list[dict[str, Any]] = []

    async def work() -> None:
        broken.extend(await stream(any_server, streamed(**_BREAKS)))

    growth = await grown(any_server, work())
    assert len(broken) == 1
    assert broken[0]["error"]["message"].startswith("generation failed: RuntimeError: ")
    assert growth[_FAILED] == 1
    assert not any(count for name, count in growth.items() if "success" in name)
    assert (await complete(any_server, max_tokens=3))["usage"]["completion_tokens"] == 3


async def test_a_whole_answer_that_breaks_has_status_500(plain: str) -> None:
    status, answer = await post(plain, streamed(stream=False, **_BREAKS))
    assert status == 500
    assert "generation failed" in json.dumps(answer)
