"""Generates the response to a request, streamed or whole."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web
from counters import Counters
from detokenizer import Detokenizer
from errors import Refusal
from generation_queue import GenerationQueue
from loading import Models
from options import Options
from request_parsing import GenerationParams
from response_json import Answer, Json, Shape
from rounds import Rounds

_LOG = logging.getLogger("transformers_server")
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Replies:
    def __init__(self, options: Options, models: Models, generation_queue: GenerationQueue, counters: Counters) -> None:
        self._options, self._models, self._queue, self._counters = options, models, generation_queue, counters

    async def reply(self, request: web.Request, params: GenerationParams, shape: Shape) -> web.StreamResponse:
        rounds = Rounds(self._options.num_speculative_tokens)
        answer = Answer(shape, params, self._options.served_model_name, self._models.eos_ids, rounds)
        async with aclosing(self._texts(params, answer, rounds)) as texts:
            return await (_stream(request, params, answer, texts) if params.stream else _whole(answer, texts))

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


async def _whole(answer: Answer, texts: AsyncGenerator[str]) -> web.StreamResponse:
    parts = [text async for text in texts]
    return web.json_response(answer.whole("".join(parts)))


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
