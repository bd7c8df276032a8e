"""A row of a dataset's file, whatever its format: what is to be asked, before any tokenizer has seen it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from jobs.datasets.prompt import Message

#: Text with something in it.
Words = Annotated[str, Field(min_length=1, pattern=r"\S")]
Category = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Row:
    """`text` or `messages` is what is sent; with `input_tokens` instead, so many random token ids.

    The recorded length of the answer is `output_tokens`, or that of `reply` in the target's own tokens. `time_s` is
    when the request came, on the clock of the file.
    """

    text: str = ""
    category: str | None = None
    messages: tuple[Message, ...] | None = None
    reply: str | None = None
    output_tokens: int | None = None
    input_tokens: int | None = None
    time_s: float | None = None

    @property
    def has_output_length(self) -> bool:
        return self.output_tokens is not None or self.reply is not None


#: From a record of the file to its row; None where the dataset's own rule leaves it out. Raises RowError.
RowReader = Callable[[Mapping[str, Any]], Row | None]


class RowError(ValueError):
    """What is wrong with a record, to be told with its line."""


class Record(BaseModel):
    """The keys that a format needs. Those that other tools write beside them are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


_R = TypeVar("_R", bound=Record)


def checked(model: type[_R], record: object, example: str) -> _R:
    """The record, validated; `example` is what one looks like. Raises RowError."""
    if not isinstance(record, Mapping):
        raise RowError(f"a row is an object like {example}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise RowError(_reason(error.errors()[0])) from None


def _reason(first: ErrorDetails) -> str:
    if not first["loc"]:  # of the whole record, in our own words
        return str(first["ctx"]["error"])
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"the row has no {field}"
    if first["type"] in ("string_type", "string_too_short", "string_pattern_mismatch"):
        return f"{field} must be text that is not empty, got {_shortened(first['input'])}"
    if first["type"] == "string_unicode":
        return f"{field} holds half a character (a lone surrogate), which no engine can be sent"
    return f"{field}: {first['msg'].replace('Input should', 'should', 1)}, got {_shortened(first['input'])}"


def _shortened(value: object) -> str:
    return repr(value if isinstance(value, str) else str(value))[:80]
