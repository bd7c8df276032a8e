"""A dataset of the user's own: one JSON object a line, with a prompt or messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from jobs.datasets.formats.rows import Category, Record, Row, Tokens, Words, checked
from jobs.datasets.prompt import Message, text_of

EXAMPLE = '{"prompt": "...", "category": "code"}'


class _Message(Record):
    role: Literal["system", "user", "assistant"]
    content: Words


class _Custom(Record):
    prompt: Words | None = None
    messages: Annotated[list[_Message], Field(min_length=1)] | None = None
    category: Category | None = None
    output_tokens: Tokens | None = None
    arrival_s: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.prompt is None and self.messages is None:
            raise ValueError("the row has no prompt (and no messages)")
        if self.prompt is not None and self.messages is not None:
            raise ValueError("the row has both prompt and messages: keep one of them")
        return self


def row(record: Mapping[str, Any]) -> Row:
    """Parse a record. Raises RowError."""
    read = checked(_Custom, record, EXAMPLE)
    messages = tuple(Message(message.role, message.content) for message in read.messages or ()) or None
    return Row(
        text=text_of(messages) if messages else read.prompt or "",
        category=read.category,
        messages=messages,
        output_tokens=read.output_tokens,
        time_s=read.arrival_s,
    )
