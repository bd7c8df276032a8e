"""One streaming request to an OpenAI-compatible server, and all that is known of it afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import aiohttp

from lab.records import RequestRecord
from lab.study import Sampling
from workers.load.answer import Answer
from workers.load.events import EventReader
from workers.workloads import Prompt

#: Shorter than the 5 s after which uvicorn drops an idle connection, or a request could meet the closing one.
_KEEPALIVE_S = 2.0
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_ERROR_CHARS = 500
_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. `per_request_spec_metrics`: the server was told to send each request's acceptance."""

    base_url: str  # without /v1
    model: str
    kind: Literal["completions", "chat"] = "completions"
    per_request_spec_metrics: bool = False

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/") + _PATHS[self.kind]


@dataclass(frozen=True)
class Ask:
    """What is asked of every request of a run."""

    sampling: Sampling
    output_tokens: int
    ignore_eos: bool
    timeout_s: float


def open_session() -> aiohttp.ClientSession:
    """A session for `send`, to be used as `async with`: a connection per stream, no hidden timeouts."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))


def request_body(target: Endpoint, prompt: Prompt, ask: Ask) -> bytes:
    """The request as JSON. Sampling is always spelt out, or the engine's own defaults would apply.

    No min_tokens: ignore_eos already fixes the length, and min_tokens would add a logits processor to each step.
    """
    body = {
        "model": target.model,
        "max_tokens": ask.output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **ask.sampling.model_dump(),
    }
    if ask.ignore_eos:
        body["ignore_eos"] = True
    if target.kind == "chat":
        body["messages"] = [{"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = prompt.text
    return json.dumps(body).encode()


async def send(
    session: aiohttp.ClientSession,
    target: Endpoint,
    prompt: Prompt,
    ask: Ask,
    clock: Callable[[], float],
    *,
    index: int = 0,
    intended_send_s: float = 0.0,
) -> RequestRecord:
    """Send one request and read its answer to the end. `clock` gives seconds since the window began.

    Whatever goes wrong between us and the server is an error on the record; what arrived until then is kept.
    """
    answer, body = Answer(), request_body(target, prompt, ask)
    blank = unsent(prompt, ask, index=index, intended_send_s=intended_send_s)
    sent_s = clock()
    broken = await _exchange(session, target.url, body, ask.timeout_s, answer=answer, clock=clock)
    end_s = clock() if broken or answer.last_event_s is None else answer.last_event_s
    spec = (answer.speculation if target.per_request_spec_metrics else None) or {}
    return replace(
        blank,
        sent_s=sent_s,
        first_token_s=answer.chunk_s[0] if answer.chunk_s else None,
        end_s=end_s,
        chunk_s=tuple(answer.chunk_s),
        chunk_tokens=answer.chunk_tokens,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        finish_reason=answer.finish_reason,
        error=broken or answer.problem(),
        output_text=answer.text,
        spec_drafts=spec.get("num_spec_steps"),
        spec_draft_tokens=spec.get("num_draft_tokens"),
        spec_accepted_tokens=spec.get("num_accepted_draft_tokens"),
    )


def unsent(prompt: Prompt, ask: Ask, *, index: int, intended_send_s: float) -> RequestRecord:
    """The record of a request that never left."""
    return RequestRecord(
        index=index,
        prompt_id=prompt.prompt_id,
        category=prompt.category,
        prompt=prompt.text,
        requested_output_tokens=ask.output_tokens,
        intended_send_s=intended_send_s,
        sent_s=None,
        first_token_s=None,
        end_s=None,
        chunk_s=(),
        chunk_tokens=None,
        prompt_tokens=None,
        completion_tokens=None,
        finish_reason=None,
        error="not sent: the server had ended before its turn came",
        output_text="",
    )


async def _exchange(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    timeout_s: float,
    *,
    answer: Answer,
    clock: Callable[[], float],
) -> str | None:
    """Post the body and feed the stream to `answer`; what broke on the way, in words, or None."""
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.post(url, data=body, headers=_HEADERS, allow_redirects=False) as response,
        ):
            if response.status != 200:
                return f"HTTP {response.status}: {await _shortened(response)}"
            await _read(response, answer, clock)
    except TimeoutError:
        return f"no complete answer within {timeout_s:g} s"
    except aiohttp.ClientConnectorError as error:
        return f"could not connect: {error}"
    except (aiohttp.ClientError, OSError) as error:
        return f"the connection broke: {type(error).__name__}: {error}"
    return None


async def _read(response: aiohttp.ClientResponse, answer: Answer, clock: Callable[[], float]) -> None:
    reader = EventReader()
    async for received in response.content.iter_any():
        t_s = clock()
        for event in reader.feed(received):
            answer.take(t_s, event)
    for event in reader.close():
        answer.take(clock(), event)


async def _shortened(response: aiohttp.ClientResponse) -> str:
    return (await response.read()).decode("utf-8", "replace").strip()[:_ERROR_CHARS]
