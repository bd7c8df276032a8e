"""A row of a dataset's file in any format: what will be sent, before it is tokenized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from jobs.datasets.prompt import Message

#: Text that is not blank.
Words = Annotated[str, Field(min_length=1, pattern=r"\S")]
Category = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `text` or `messages` is sent, or instead `input_tokens` random token ids.

    The recorded length of the answer is `output_tokens`, or that of `reply` in the target's own tokens. `time_s` is the
    arrival of the request, on the clock of the file.
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


#: Parses a record of the file; returns None if the dataset's own rule excludes it. Raises RowError.
RowReader = Callable[[Mapping[str, Any]], Row | None]


class RowError(ValueError):
    """What is wrong with a record; the caller adds its line."""


class Record(BaseModel):
    """The keys that a format needs. Keys that other tools write beside them are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


_R = TypeVar("_R", bound=Record)


def checked(model: type[_R], record: object, example: str) -> _R:
    """Validate a record; `example` shows a valid one. Raises RowError."""
    if not isinstance(record, Mapping):
        raise RowError(f"a row must be an object like {example}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise RowError(_reason(error.errors()[0])) from None


def _reason(first: ErrorDetails) -> str:
    if not first["loc"]:  # our own message about the whole record
        return str(first["ctx"]["error"])
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"the row has no {field}"
    if first["type"] in ("string_type", "string_too_short", "string_pattern_mismatch"):
        return f"{field} must be non-empty text, got {_shortened(first['input'])}"
    if first["type"] == "string_unicode":
        return f"{field} holds half a character (a lone surrogate), which cannot be sent to an engine"
    return f"{field}: {first['msg'].replace('Input should', 'should', 1)}, got {_shortened(first['input'])}"


def _shortened(value: object) -> str:
    return repr(value if isinstance(value, str) else str(value))[:80]
