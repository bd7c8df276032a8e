"""Generates the response to a request, streamed or whole: the text of the tokens, and the JSON of both endpoints."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from counters import Counters
from decoding import Rounds
from errors import Refusal
from generation_queue import GenerationQueue
from loading import Models
from options import Options
from request_parsing import GenerationParams

_HALF_A_CHARACTER = "\ufffd"
#: Tokens of the prompt to decode together with the answer: some tokenizers write a first token differently.
_CONTEXT_TOKENS = 6
Json = dict[str, Any]
_LOG = logging.getLogger("transformers_server")
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Detokenizer:
    """The text of one answer. Half a character is held back until its other half arrives."""

    def __init__(self, decode: Callable[[list[int]], str], prompt_ids: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(prompt_ids[-_CONTEXT_TOKENS:])
        self._start, self._sent_until = 0, len(self._ids)

    def add(self, ids: Sequence[int], *, last: bool) -> str:
        """Return the text that these tokens added. With `last` nothing is held back."""
        self._ids += ids
        sent = self._decoded(self._sent_until)
        now = self._decoded(len(self._ids))
        if now.endswith(_HALF_A_CHARACTER) and not last:
            return ""
        self._start, self._sent_until = self._sent_until, len(self._ids)
        return now[len(sent) :]

    def _decoded(self, end: int) -> str:
        return self._decode(self._ids[self._start : end])


@dataclass(frozen=True)
class Shape:
    """The field names of an endpoint."""

    id_prefix: str
    whole_object: str
    chunk_object: str
    whole: Callable[[str], Json]
    chunk: Callable[[str], Json]
    opening: Json | None  # the choice of a first chunk without output


COMPLETION = Shape(
    id_prefix="cmpl-",
    whole_object="text_completion",
    chunk_object="text_completion",
    whole=lambda text: {"text": text},
    chunk=lambda text: {"text": text},
    opening=None,
)
CHAT = Shape(
    id_prefix="chatcmpl-",
    whole_object="chat.completion",
    chunk_object="chat.completion.chunk",
    whole=lambda text: {"message": {"role": "assistant", "content": text}},
    chunk=lambda text: {"delta": {"content": text} if text else {}},
    opening={"delta": {"role": "assistant", "content": ""}},
)


class Answer:
    """Counts the tokens of one answer and writes its JSON."""

    def __init__(
        self, shape: Shape, params: GenerationParams, model: str, eos_ids: tuple[int, ...], rounds: Rounds
    ) -> None:
        self._shape, self._params, self._rounds = shape, params, rounds
        self._eos_ids = () if params.ignore_eos else eos_ids
        self._head = {"id": shape.id_prefix + uuid.uuid4().hex, "created": int(time.time()), "model": model}
        self._completion_tokens = 0
        self.finish_reason: str | None = None

    def take(self, tokens: list[int]) -> None:
        """Count the tokens of a round; the last round sets `finish_reason`."""
        self._completion_tokens += len(tokens)
        if tokens[-1] in self._eos_ids:
            self.finish_reason = "stop"
        elif self._completion_tokens >= self._params.max_tokens:
            self.finish_reason = "length"

    def opening(self) -> Json | None:
        return None if self._shape.opening is None else self._chunk(self._shape.opening, None)

    def round(self, text: str) -> Json:
        return self._chunk(self._shape.chunk(text), None)

    def finish(self) -> Json:
        return self._chunk(self._shape.chunk(""), self.finish_reason)

    def last_usage(self) -> Json:
        return {**self._head, "object": self._shape.chunk_object, "choices": [], **self._totals()}

    def whole(self, text: str) -> Json:
        choice = {"index": 0, **self._shape.whole(text), "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._head, "object": self._shape.whole_object, "choices": [choice], **self._totals()}

    def _chunk(self, choice: Json, finish_reason: str | None) -> Json:
        choices = [{"index": 0, **choice, "logprobs": None, "finish_reason": finish_reason}]
        usage = {"usage": self._usage()} if self._params.usage_in_chunks else {}
        return {**self._head, "object": self._shape.chunk_object, "choices": choices, **usage}

    def _usage(self) -> Json:
        prompt, completion = len(self._params.prompt_ids), self._completion_tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _totals(self) -> Json:
        """Return the usage and, if the server speculates, the speculation of this request."""
        speculates = self._rounds.num_speculative_tokens > 0
        metrics = {"metrics": {"speculative_decoding": self._rounds.summary()}} if speculates else {}
        return {"usage": self._usage(), **metrics}


class Replies:
    def __init__(self, options: Options, models: Models, generation_queue: GenerationQueue, counters: Counters) -> None:
        self._options, self._models, self._queue, self._counters = options, models, generation_queue, counters

    async def reply(self, request: web.Request, params: GenerationParams, shape: Shape) -> web.StreamResponse:
        rounds = Rounds(self._options.num_speculative_tokens)
        answer = Answer(shape, params, self._options.served_model_name, self._models.eos_ids, rounds)
        async with aclosing(self._texts(params, answer, rounds)) as texts:
            if params.stream:
                return await _stream(request, params, answer, texts)
            return web.json_response(answer.whole("".join([text async for text in texts])))

    def _decoded(self, ids: list[int]) -> str:
        """Decode without end tokens and other special ones, and with every blank that the model wrote."""
        return str(self._models.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    async def _texts(self, params: GenerationParams, answer: Answer, rounds: Rounds) -> AsyncGenerator[str]:
        """Yield the text of each round. Any failure of the generation becomes a Refusal with status 500.

        Every request increments exactly one counter: success, error, or abort by its client.
        """
        text = Detokenizer(self._decoded, params.prompt_ids)
        try:
            async with aclosing(self._queue.tokens(params, rounds)) as arriving:
                async for tokens in arriving:
                    answer.take(tokens)
                    yield text.add(tokens, last=answer.finish_reason is not None)
            if answer.finish_reason is None:
                raise RuntimeError("generate returned before the answer was complete")  # noqa: TRY301 - handled below
        except (asyncio.CancelledError, GeneratorExit):
            self._counters.failure("abort")
            raise
        except Exception as error:
            self._counters.failure("error")
            _LOG.exception("generation failed")
            raise Refusal(500, f"generation failed: {type(error).__name__}: {error}") from error
        self._counters.success(answer.finish_reason)


async def _stream(
    request: web.Request, params: GenerationParams, answer: Answer, texts: AsyncGenerator[str]
) -> web.StreamResponse:
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    try:
        async with aclosing(_events(params, answer, texts)) as events:
            async for event in events:
                await _write(response, event)
    except Refusal as refusal:
        error = {"message": str(refusal), "type": "InternalServerError", "param": None, "code": refusal.status}
        await _write(response, {"error": error})
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _events(params: GenerationParams, answer: Answer, texts: AsyncGenerator[str]) -> AsyncGenerator[Json]:
    """Yield a chunk for each round, an empty one with the finish reason, and the token counts if they were
    requested.
    """
    opening = answer.opening()
    async for text in texts:
        if opening is not None:
            yield opening
            opening = None
        yield answer.round(text)
    yield answer.finish()
    if params.include_usage:
        yield answer.last_usage()


async def _write(response: web.StreamResponse, event: Json) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
