"""Parses the body of a request into GenerationParams, or raises a Refusal that says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from errors import Refusal
from jinja2 import TemplateError
from loading import Models
from pydantic import BaseModel, ConfigDict, Field, ValidationError

#: Fields of the API that this server does not implement, with the values that have no effect.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "n": (1,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "skip_special_tokens": (True,),
    "stop": ([],),
    "stop_token_ids": ([],),
    "top_k": (0, -1),
}
_DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's


@dataclass(frozen=True)
class GenerationParams:
    """One validated request. Missing fields have OpenAI's defaults."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    seed: int | None
    ignore_eos: bool
    stream: bool
    include_usage: bool  # send a last chunk with the token counts
    usage_in_chunks: bool


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    model: str | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)  # what torch takes
    max_tokens: int | None = Field(default=None, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    ignore_eos: bool = False


_Kind = TypeVar("_Kind", bound=_Body)


class _Completion(_Body):
    prompt: str | list[int]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    type: str = Field(pattern="^text$")
    text: str


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    role: str
    content: str | list[_Part]

    def plain(self) -> dict[str, str]:
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": self.role, "content": content}


class _Chat(_Body):
    messages: list[_Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)


def read_completion(data: Any, models: Models, served: str) -> GenerationParams:
    body = _validated(_Completion, data, served)
    ids = body.prompt if isinstance(body.prompt, list) else models.tokenizer.encode(body.prompt)
    return _params(body, ids, body.max_tokens or _DEFAULT_COMPLETION_TOKENS, models)


def read_chat(data: Any, models: Models, served: str) -> GenerationParams:
    """Parse a chat request. Without a limit the answer may fill the rest of the context, as in vLLM."""
    body = _validated(_Chat, data, served)
    if models.tokenizer.chat_template is None:
        raise Refusal(400, f"the tokenizer of {served!r} has no chat template: use /v1/completions")
    messages = [message.plain() for message in body.messages]
    try:
        text = models.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except TemplateError as error:
        raise Refusal(400, f"the model's chat template does not take these messages: {error}") from error
    ids = models.tokenizer.encode(str(text), add_special_tokens=False)  # the template contains them
    rest = max(models.context_tokens - len(ids), 1)
    return _params(body, ids, body.max_completion_tokens or body.max_tokens or rest, models)


def _validated(kind: type[_Kind], data: Any, served: str) -> _Kind:
    if not isinstance(data, dict):
        raise Refusal(400, "the body is not a JSON object")
    try:
        body = kind.model_validate(data)
    except ValidationError as error:
        raise Refusal(400, _sentence(error)) from error
    if body.model not in {None, served}:
        raise Refusal(404, f"there is no model {body.model!r} here: this server has {served!r}")
    for name, value in (body.model_extra or {}).items():
        if value is not None and value not in _WITHOUT_EFFECT.get(name, ()):
            raise Refusal(400, f"{name} = {value!r} is not supported by this server: leave it out")
    return body


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["loc"][0] == "prompt":  # pydantic would report only one of the two types
        return "prompt: must be one text or one list of token ids"
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _params(body: _Body, ids: list[int], max_tokens: int, models: Models) -> GenerationParams:
    _check_prompt(ids, max_tokens, models)
    if body.min_tokens > max_tokens:
        raise Refusal(400, f"min_tokens {body.min_tokens} is more than max_tokens {max_tokens}")
    options = body.stream_options or _StreamOptions()
    return GenerationParams(
        prompt_ids=tuple(ids),
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=body.seed,
        ignore_eos=body.ignore_eos,
        stream=body.stream,
        include_usage=options.include_usage,
        usage_in_chunks=options.include_usage and options.continuous_usage_stats,
    )


def _check_prompt(ids: list[int], max_tokens: int, models: Models) -> None:
    if not ids:
        raise Refusal(400, "prompt: it has no tokens")
    wrong = [token for token in ids if not 0 <= token < models.vocabulary]
    if wrong:
        raise Refusal(400, f"prompt: there is no token {wrong[0]}, the vocabulary ends at {models.vocabulary - 1}")
    if len(ids) + max_tokens > models.context_tokens:
        raise Refusal(
            400,
            f"the prompt of {len(ids)} tokens and an answer of {max_tokens} do not fit into the context of "
            f"{models.context_tokens} tokens: shorten the prompt or lower max_tokens",
        )
