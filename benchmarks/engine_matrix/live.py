"""One arm of one release, started for real: what its pages, streams and refusals look like."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from pydantic import JsonValue

from host.settings import Settings
from jobs.datasets.prompt import Prompt
from jobs.engines.captures import Answer
from lab.study import Arm, Sampling, Study
from workers.engine_runtime.launch import Process, RunningEngine, start_engine
from workers.load.client import Endpoint, RequestParams, open_session, request_body

_STOP_GRACE_S = 10.0
_TOKENS = 3  # a first, a middle and a last event
_MOST_CHARS = 600
#: What differs from one answer to the next, and no reader looks at.
_UNSTEADY = ("id", "created", "system_fingerprint")
#: Samples that nobody reads: of histograms, times of creation, and the configuration as labels.
_UNREAD = ("_bucket", "_count", "_sum", "_created", "_info")
#: Where an error begins to name files of this machine.
_TRACE = "\\n\\n  File"


@asynccontextmanager
async def running(settings: Settings, study: Study, arm: Arm) -> AsyncIterator[RunningEngine]:
    """Start an arm's engine and stop it at the end. Raises EngineError."""
    processes: list[Process] = []
    log = settings.home / "logs" / f"{arm.name}.log"
    log.parent.mkdir(exist_ok=True)
    try:
        yield await start_engine(settings, study, arm, log, lambda _command, process: processes.append(process))
    finally:
        for process in processes:
            process.stop(_STOP_GRACE_S)


def own_request(endpoint: Endpoint, **changes: Any) -> dict[str, Any]:
    """Return a request as a run sends it, with changes; None leaves a key out."""
    params = RequestParams(Sampling(), _TOKENS, ignore_eos=True, timeout_s=60.0)
    body = json.loads(request_body(endpoint, Prompt("matrix", None, "def add(a, b):"), params))
    return {key: value for key, value in (body | changes).items() if value is not None}


async def stream(session: aiohttp.ClientSession, endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[JsonValue, ...]:
    """Return the events that answer a request; a refusal is one event with the status."""
    async with session.post(endpoint.url, json=body) as answer:
        text = await answer.text()
    if answer.status != 200:
        return ({"status": answer.status, "text": text[:_MOST_CHARS]},)
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return tuple(line if line == "[DONE]" else _steady(json.loads(line)) for line in lines)


def _steady(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in _UNSTEADY}


async def page(session: aiohttp.ClientSession, method: str, url: str, body: object = None) -> Answer:
    """Return the answer of one page, cut where it is long; of a request that succeeded, the status.

    Its connection is not used again: vLLM 0.19 and 0.22 close one after a refusal without saying so.
    """
    async with session.request(method, url, json=body, headers={"Connection": "close"}) as answer:
        text = (await answer.text()).partition(_TRACE)[0][:_MOST_CHARS]
    return Answer(status=answer.status, text="" if body is not None and answer.status == 200 else text)


async def metrics(session: aiohttp.ClientSession, endpoint: Endpoint) -> dict[str, tuple[tuple[str, ...], float]]:
    """Return the engine's own metrics by name: their labels, and their sum."""
    async with session.get(f"{endpoint.base_url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, tuple[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("vllm:") and not sample.name.endswith(_UNREAD):
                labels, total = found.get(sample.name, (tuple(sorted(sample.labels)), 0.0))
                found[sample.name] = labels, total + sample.value
    return found


async def streams(endpoint: Endpoint) -> dict[str, tuple[JsonValue, ...]]:
    """Return the same request asked in other ways: tokens counted at the end alone, no ids, as a chat."""
    async with open_session(endpoint) as session:
        at_the_end = {"stream_options": {"include_usage": True}}
        chat = {"prompt": None, "messages": [{"role": "user", "content": "Say hello."}]}
        url = endpoint.url.removesuffix("/completions")
        chat_endpoint = Endpoint(f"{url.removesuffix('/v1')}", endpoint.model, kind="chat", api_key=endpoint.api_key)
        return {
            "usage at the end": await stream(
                session, endpoint, own_request(endpoint, return_token_ids=None, **at_the_end)
            ),
            "no usage": await stream(
                session, endpoint, own_request(endpoint, return_token_ids=None, stream_options=None)
            ),
            "chat": await stream(session, chat_endpoint, own_request(endpoint, **chat)),
        }


async def tool_call(endpoint: Endpoint) -> tuple[JsonValue, ...]:
    """Return the stream of a chat that has to call a tool."""
    tool = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}}
    chat = {
        "prompt": None,
        "messages": [{"role": "user", "content": "Add 1."}],
        "tools": [{"type": "function", "function": tool}],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "max_tokens": 24,
        "ignore_eos": None,
    }
    async with open_session(endpoint) as session:
        return await stream(session, replace(endpoint, kind="chat"), own_request(endpoint, **chat))


async def ranks(endpoint: Endpoint) -> Answer:
    """Return which ranks count generated tokens, after some requests."""
    async with open_session(endpoint) as session:
        for _ in range(4):
            await stream(session, endpoint, own_request(endpoint))
        async with session.get(f"{endpoint.base_url}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
    counted = {
        sample.labels.get("engine", "-"): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "vllm:generation_tokens_total"
    }
    return Answer(status=200, text=json.dumps(counted))


async def sleep(endpoint: Endpoint) -> dict[str, Answer]:
    """Return what the pages of sleep mode answer, in the order in which they are asked."""
    paths = (("POST", "/sleep?level=1"), ("GET", "/is_sleeping"), ("POST", "/wake_up"))
    async with open_session(endpoint) as session:
        return {path: await page(session, method, f"{endpoint.base_url}{path}") for method, path in paths}


async def answers(endpoint: Endpoint) -> dict[str, Answer]:
    """Return pages and refusals. The prefix cache is emptied between two readings of the metrics."""
    base = endpoint.base_url
    wrong: dict[str, dict[str, Any]] = {
        "unknown model": {"model": "nobody"},
        "wrong temperature": {"temperature": -1},
        "prompt too long": {"prompt": "word " * 4000},
        "unknown key": {"no_such_key": 1, "stream": False, "stream_options": None},
    }
    async with open_session(endpoint) as session:
        found = {
            name: await page(session, "GET", base + path)
            for name, path in (("version", "/version"), ("health", "/health"))
        }
        before = await metrics(session, endpoint)
        found["reset"] = await page(session, "POST", f"{base}/reset_prefix_cache")
        found["reset of all tiers"] = await page(session, "POST", f"{base}/reset_prefix_cache?reset_external=true")
        after = await metrics(session, endpoint)
        fell = sorted(name for name, (_, value) in before.items() if name.endswith("_total") and after[name][1] < value)
        found["counters that fell with the reset"] = Answer(status=200, text=", ".join(fell))
        for name, changes in wrong.items():
            found[name] = await page(session, "POST", endpoint.url, own_request(endpoint, **changes))
    async with open_session() as session:
        found["without the key"] = await page(session, "GET", f"{base}/v1/models")
    return found
