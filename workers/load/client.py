"""One streaming request to an OpenAI-compatible server, and its record."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import aiohttp

from jobs.datasets.prompt import Message, Prompt
from lab.metrics.records import RequestRecord
from lab.storable import MOST_CHARS, storable
from lab.study import Sampling
from workers.load.answer import Answer, EventReader
from workers.load.connections import (
    KEEPALIVE_S,
    CannotConnectError,
    CheckedResolver,
    Connections,
    Response,
    StaleConnectionError,
)

logger = logging.getLogger(__name__)
#: Firewalls of gateways, AWS's among them, refuse requests without a User-Agent.
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "drafthouse"}
_ERROR_CHARS = 500
#: Bytes of a server's other pages, such as its version or its counters.
_PAGE_BYTES = 16 * 2**20
#: A host that is busy may keep a server from its answer for long.
_PAGE_TIMEOUT = aiohttp.ClientTimeout(total=30)
#: Bytes read of a body without events, to find the reason.
_BEGINNING_BYTES = 1 << 16
#: Most bytes of an answer for each requested token, and for the prompt and counters that it repeats. A
#: chunk of one token takes about 300, and the tokens of a prompt of a million that vLLM repeats 8 MB.
_BYTES_PER_TOKEN, _BYTES_BESIDES = 8_192, 16 * 2**20
#: Keys of a message in the errors of servers, and of what contains it.
_OF_MESSAGES = ("error", "errors", "message", "detail", "msg")
HIDDEN = "[the API key]"
_PATHS = {"completions": "/completions", "chat": "/chat/completions"}


@dataclass(frozen=True)
class Endpoint:
    """The target of requests and its capabilities. `per_request_spec_metrics`: the server was started to report each
    request's acceptance. `continuous_usage`: it can count tokens in every chunk. `token_ids`: it can return the
    output's tokens. `usage_option`: it takes `stream_options`. `limit_key`: what it calls the most tokens of an answer.
    `neutral_keys`: it takes top_p and seed also at temperature 0, where they change nothing. `further`: keys that this
    kind of server needs in every body. `foreign`: we did not start it. `checked`: resolved addresses are checked.
    `ca_file`: the only authorities that are trusted. `proxy`: requests go through it, and the
    server's other pages are not asked. `api_key_header`: sends the key, instead of `Authorization: Bearer`.
    """

    base_url: str  # without /v1
    model: str
    kind: Literal["completions", "chat"] = "completions"
    per_request_spec_metrics: bool = False
    continuous_usage: bool = True
    usage_option: bool = True
    token_ids: bool = False
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    neutral_keys: bool = True
    further: Mapping[str, bool] = field(default_factory=dict)
    foreign: bool = False
    checked: bool = False
    api_path: str = "/v1"
    ca_file: Path | None = None
    proxy: str | None = None
    api_key_header: str | None = None
    api_key: str | None = field(default=None, repr=False)  # repr is what ends up in logs and tracebacks

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/") + self.api_path + _PATHS[self.kind]

    @property
    def headers(self) -> dict[str, str]:
        if self.api_key is None:
            return {}
        name = self.api_key_header
        return {"Authorization": f"Bearer {self.api_key}"} if name is None else {name: self.api_key}

    def connections(self) -> Connections:
        """Return connections for requests to this server, to be used as `async with`."""
        return Connections(checked=self.checked, ca_file=self.ca_file, proxy=self.proxy)

    def hide_key(self, text: str) -> str:
        """Remove the key from a text: a server may repeat a request in an error or in its output."""
        if self.api_key is None:
            return text
        return text.replace(self.api_key, HIDDEN).replace(json.dumps(self.api_key)[1:-1], HIDDEN)

    def without_key(self, event: bytes) -> bytes:
        """Remove the key from an event of a stream, before any of it is truncated and stored."""
        if self.api_key is None or not any(key in event for key in self._forms_of_key):
            return event
        return self.hide_key(event.decode("utf-8", "replace")).encode()

    @functools.cached_property
    def _forms_of_key(self) -> tuple[bytes, bytes]:
        """Return the key as it is, and as JSON writes it."""
        key = self.api_key or ""
        return key.encode(), json.dumps(key)[1:-1].encode()


@dataclass(frozen=True)
class RequestParams:
    """The parameters of every request of a run. `output_tokens` is the maximum if a prompt has a length of its own."""

    sampling: Sampling
    output_tokens: int
    ignore_eos: bool
    timeout_s: float

    def output_tokens_for(self, prompt: Prompt) -> int:
        """Return how many tokens to request."""
        return self.output_tokens if prompt.output_tokens is None else min(prompt.output_tokens, self.output_tokens)


def open_session(target: Endpoint | None = None) -> aiohttp.ClientSession:
    """Open a session for a server's other pages, to be used as `async with`. None of them may take over 10 s.

    With a target, every request carries its key and, if required, connects to checked addresses only.
    """
    resolver = CheckedResolver() if target is not None and target.checked else None
    headers = {} if target is None else target.headers
    authorities = None if target is None else target.ca_file
    tls = True if authorities is None else ssl.create_default_context(cafile=authorities)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S, resolver=resolver, ssl=tls)
    return aiohttp.ClientSession(
        connector=connector, timeout=_PAGE_TIMEOUT, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
    )


def request_body(target: Endpoint, prompt: Prompt, params: RequestParams) -> bytes:
    """Return the request as JSON. Sampling is always explicit, or the engine's own defaults would apply.

    No min_tokens: ignore_eos already fixes the length, and min_tokens would add a logits processor to each step.
    """
    body = {
        "model": target.model,
        target.limit_key: params.output_tokens_for(prompt),
        "stream": True,
        **params.sampling.model_dump(),
        "seed": params.sampling.seed + prompt.occurrence,
        **target.further,
    }
    if not target.neutral_keys and params.sampling.temperature == 0:
        del body["top_p"], body["seed"]
    if target.usage_option:
        continuous = {"continuous_usage_stats": True} if target.continuous_usage else {}
        body["stream_options"] = {"include_usage": True} | continuous
    if params.ignore_eos:
        body["ignore_eos"] = True
    if target.token_ids and params.sampling.temperature == 0:  # sampled outputs are not compared
        body["return_token_ids"] = True
    if prompt.json_schema is not None:
        schema = {"name": "answer", "schema": json.loads(prompt.json_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if target.kind == "chat":
        body["messages"] = [message.sent() for message in prompt.messages or (Message("user", prompt.text),)]
    else:
        body["prompt"] = prompt.token_ids or prompt.text
    return json.dumps(body).encode()


def sent_prompt_tokens(target: Endpoint, prompt: Prompt) -> int | None:
    """Return how many tokens of the prompt are sent; None if unknown.

    A chat template adds tokens and may merge others, and a foreign server may have another tokenizer.
    """
    if target.kind == "chat":
        return None
    if prompt.token_ids:
        return len(prompt.token_ids)
    return None if target.foreign else prompt.text_tokens


async def send(
    connections: Connections,
    target: Endpoint,
    prompt: Prompt,
    params: RequestParams,
    clock: Callable[[], float],
    *,
    index: int = 0,
    intended_send_s: float = 0.0,
    answer: Answer | None = None,
) -> RequestRecord:
    """Send one request and read its answer to the end. `clock` returns seconds since the window began.

    Whatever fails between us and the server becomes an error in the record; what arrived before is recorded. So does a
    bug of ours that an answer reveals: only this request fails. `answer`: a new Answer, for a caller that watches the
    output so far.
    """
    blank = unsent(prompt, params, index=index, intended_send_s=intended_send_s)
    sent_s = clock()
    try:
        return await _sent(connections, target, prompt, params, clock, answer=answer or Answer(), blank=blank)
    except Exception as bug:
        logger.exception("request %d of this run failed", index)
        error = f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log"
        return replace(blank, sent_s=sent_s, end_s=clock(), error=storable(target.hide_key(error), MOST_CHARS))


async def _sent(
    connections: Connections,
    target: Endpoint,
    prompt: Prompt,
    params: RequestParams,
    clock: Callable[[], float],
    *,
    answer: Answer,
    blank: RequestRecord,
) -> RequestRecord:
    body = request_body(target, prompt, params)
    sent_s = clock()
    most_bytes = _BYTES_BESIDES + _BYTES_PER_TOKEN * params.output_tokens_for(prompt)
    broken = await _exchange(
        connections, target, body, params.timeout_s, answer=answer, clock=clock, most_bytes=most_bytes
    )
    end_s = clock() if broken or answer.last_event_s is None else answer.last_event_s
    spec = (answer.speculation if target.per_request_spec_metrics else None) or {}
    rounds = answer.rounds if target.per_request_spec_metrics else None
    reasoning, text = answer.reasoning, answer.text
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
        error=storable(target.hide_key(problem), MOST_CHARS) if (problem := broken or answer.problem()) else None,
        output_text=target.hide_key(text),  # the key may have come in pieces
        spec_drafts=spec.get("num_spec_steps"),
        spec_draft_tokens=spec.get("num_draft_tokens"),
        spec_accepted_tokens=spec.get("num_accepted_draft_tokens"),
        sent_prompt_tokens=sent_prompt_tokens(target, prompt),
        output_token_ids=answer.token_ids,
        rounds_drafted=None if rounds is None else tuple(drafted for drafted, _ in rounds),
        rounds_accepted=None if rounds is None else tuple(accepted for _, accepted in rounds),
        rounds_count=None if rounds is None else tuple(rounds.values()),
        reasoning_tokens=reasoning.tokens if answer.chunk_s else None,
        reasoning_chars=len(target.hide_key(text[: reasoning.chars])) if answer.chunk_s else None,
        first_answer_s=reasoning.first_answer_s,
        reasoning_rounds=None if rounds is None else reasoning.rounds,
        reasoning_accepted_tokens=None if rounds is None else reasoning.accepted_tokens,
        cached_prompt_tokens=answer.cached_prompt_tokens,
        resent=answer.resent,
    )


def unsent(
    prompt: Prompt, params: RequestParams, *, index: int, intended_send_s: float, why: str | None = None
) -> RequestRecord:
    """Return the record of a request that was not sent, or not yet."""
    return RequestRecord(
        index=index,
        prompt_id=prompt.prompt_id,
        session_id=prompt.session_id,
        turn=prompt.turn,
        category=prompt.category,
        prompt=prompt.text,
        requested_output_tokens=params.output_tokens_for(prompt),
        intended_send_s=intended_send_s,
        sent_s=None,
        first_token_s=None,
        end_s=None,
        chunk_s=(),
        chunk_tokens=None,
        prompt_tokens=None,
        completion_tokens=None,
        finish_reason=None,
        error=why,
        output_text="",
        expected=prompt.expected,
    )


class _Reception:
    """The incoming body of an answer, split into events."""

    def __init__(self, answer: Answer, target: Endpoint) -> None:
        self._answer, self._target, self._reader = answer, target, EventReader()
        self._last_s = 0.0
        self.beginning = b""  # of a body that has had no event

    def receive(self, t_s: float, received: bytes) -> None:
        self._last_s = t_s
        if self._answer.last_event_s is None and len(self.beginning) < _BEGINNING_BYTES:
            self.beginning += received
        for event in self._reader.feed(received):
            self._answer.take(t_s, self._target.without_key(event))

    def close(self) -> None:
        """Process a last event that the server did not end."""
        for event in self._reader.close():
            self._answer.take(self._last_s, self._target.without_key(event))


async def _exchange(
    connections: Connections,
    target: Endpoint,
    body: bytes,
    timeout_s: float,
    *,
    answer: Answer,
    clock: Callable[[], float],
    most_bytes: int,
) -> str | None:
    """Post the body, once more if the used connection was stale, and feed the stream to `answer`. Return what failed,
    or None.
    """
    reception = _Reception(answer, target)

    async def post(*, fresh: bool) -> Response:
        headers = _HEADERS | target.headers
        return await connections.post(target.url, headers, body, reception, clock, most_bytes=most_bytes, fresh=fresh)

    try:
        async with asyncio.timeout(timeout_s):
            try:
                response = await post(fresh=False)
            except StaleConnectionError:
                answer.resent += 1
                response = await post(fresh=True)
        answer.whole = response.is_whole
    except TimeoutError:
        return f"no complete answer within {timeout_s:g} s"
    except CannotConnectError as error:
        return f"could not connect: {error}"
    except OSError as error:
        return f"the connection broke: {type(error).__name__}: {error}"
    finally:
        reception.close()
    if response.status != 200:
        return f"HTTP {response.status}{_unusual(target, response)}: {_why_refused(target, response)}"
    if answer.last_event_s is None and reception.beginning.strip():
        kind = target.hide_key(response.content_type) or "without a content type"
        return f"the answer ({kind}) has no event of a stream: {_reason(target, reception.beginning)}"
    return None


def _why_refused(target: Endpoint, response: Response) -> str:
    if 300 <= response.status < 400:
        return "the server redirects, which is not followed: name the address to which it leads"
    return _reason(target, response.refusal)


def _unusual(target: Endpoint, response: Response) -> str:
    """Return the content type of a refusal if it is not that of an API: a login page, say."""
    kind = target.hide_key(response.content_type)
    return "" if not kind or "json" in kind or "text/plain" in kind else f" ({kind})"


def _reason(target: Endpoint, body: bytes) -> str:
    """Return why a server sent no stream: the beginning of its response."""
    text = target.hide_key(body.decode("utf-8", "replace").strip())
    return _message(text) if target.foreign else text[:_ERROR_CHARS]


def _message(refusal: str) -> str:
    """Return the message of a foreign server's error. A study names the address, so it may be any page of a network:
    only a body in the form of an error is stored and shown.
    """
    try:
        document = json.loads(refusal)
        message = None if isinstance(document, str) else _said(document)
    except (ValueError, RecursionError):
        message = None
    return message[:_ERROR_CHARS] if message else "its answer is no error of such a server: not stored"


def _said(error: object) -> str | None:
    """Return the message in an error of any server: nested, or a list (Vertex; FastAPI's, with the place of each)."""
    if isinstance(error, list):
        said = [text for part in error if isinstance(part, dict) and (text := _said(part))]
        return "; ".join(said) or None
    if not isinstance(error, dict):
        return error if isinstance(error, str) else None
    text = next((text for key in _OF_MESSAGES if (text := _said(error.get(key)))), None)
    place = error.get("loc")
    return f"{'.'.join(map(str, place))}: {text}" if text and isinstance(place, list) else text


class PageTooLongError(aiohttp.ClientPayloadError):
    """A page is longer than any valid one."""


async def read_page(response: aiohttp.ClientResponse, most_bytes: int = _PAGE_BYTES) -> bytes:
    """Read a page of any server. Raises PageTooLongError, or another ClientError."""
    page = bytearray()
    async for piece in response.content.iter_any():
        page += piece
        if len(page) > most_bytes:
            raise PageTooLongError(f"the page is longer than {most_bytes >> 20} MiB")
    return bytes(page)
