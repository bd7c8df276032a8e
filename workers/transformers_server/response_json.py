"""The JSON of responses, whole ones and the chunks of a stream, for both endpoints."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from request_parsing import GenerationParams
from rounds import Rounds

Json = dict[str, Any]


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
