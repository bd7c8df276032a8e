"""Files of prompts in common forms, recognised by the keys of each row: the user's own rows, OpenAI's batch files,
Alpaca, Dolly, FastChat's questions, and conversations of ShareGPT and LMSYS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from jobs.datasets.formats import (
    Category,
    Record,
    Row,
    RowError,
    RowReader,
    Tokens,
    Words,
    asked,
    checked,
    custom_row,
    sharegpt_row,
)
from jobs.datasets.prompt import Message, text_of
from jobs.datasets.sessions import turns_of

#: Some published files have an empty category.
_CategoryOrNone = Annotated[Category | None, BeforeValidator(lambda value: None if value == "" else value)]
_BATCH_EXAMPLE = '{"custom_id": "1", "method": "POST", "body": {"messages": [{"role": "user", "content": "..."}]}}'
_INSTRUCTION_EXAMPLE = '{"instruction": "...", "input": "...", "output": "..."}'
_TURNS_EXAMPLE = '{"question_id": 1, "category": "writing", "turns": ["..."]}'


def own_row(record: Mapping[str, Any]) -> Row | tuple[Row, ...] | None:
    """Read a row in whichever of the forms its keys belong to. Raises RowError."""
    keys = record if isinstance(record, Mapping) else {}
    if "prompt" in keys or "messages" in keys:
        return custom_row(record)
    return next((read for key, read in _FORMS.items() if key in keys), custom_row)(record)


def _text_of_parts(content: object) -> object:
    """Return the text of a message that is a list of parts, as the API allows. Raises RowError for images and sound."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
    texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    if len(texts) < len(content):
        raise RowError("messages: only parts of text can be sent, no images and sound")
    return "\n\n".join(texts)


class _Said(Record):
    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[Words, BeforeValidator(_text_of_parts)]


class _Body(Record):
    messages: Annotated[list[_Said], Field(min_length=1)] | None = None
    prompt: Words | None = None
    output_tokens: Annotated[
        Tokens | None, Field(validation_alias=AliasChoices("max_completion_tokens", "max_tokens"))
    ] = None


class _Batch(Record):
    body: _Body


def _batch_row(record: Mapping[str, Any]) -> Row:
    """OpenAI's batch file: the body of a request per row; `max_tokens` is the length of the answer."""
    body = checked(_Batch, record, _BATCH_EXAMPLE).body
    if (body.messages is None) == (body.prompt is None):
        raise RowError("body needs one of messages and prompt: only chat and completions are read")
    messages = tuple(Message(said.role, said.content) for said in body.messages or ())
    return Row(
        text=text_of(messages) if messages else body.prompt or "",
        messages=messages or None,
        output_tokens=body.output_tokens,
        turns=turns_of(messages or (Message("user", body.prompt or ""),)),
    )


class _Instance(Record):
    context: Annotated[str, Field(validation_alias=AliasChoices("input", "context"))] = ""
    reply: Annotated[str | None, Field(validation_alias=AliasChoices("output", "response"))] = None


class _Instruction(_Instance):
    instruction: Words
    category: _CategoryOrNone = None
    instances: list[_Instance] = Field(default_factory=list)


def _instruction_row(record: Mapping[str, Any]) -> Row:
    """Alpaca, its seed tasks, and Dolly: an instruction, what it is about, and an answer, whose length is recorded."""
    read = checked(_Instruction, record, _INSTRUCTION_EXAMPLE)
    first = read.instances[0] if read.instances else read
    text = f"{read.instruction}\n\n{first.context}" if first.context.strip() else read.instruction
    return Row(text=text, category=read.category, reply=first.reply or None, turns=asked([text]))


class _Questions(Record):
    turns: Annotated[list[Words], Field(min_length=1)]
    category: _CategoryOrNone = None


def _turns_row(record: Mapping[str, Any]) -> Row:
    """FastChat's and EAGLE's questions: the first turn, or all as a session."""
    read = checked(_Questions, record, _TURNS_EXAMPLE)
    return Row(text=read.turns[0], category=read.category, turns=asked(read.turns))


def _lmsys_row(record: Mapping[str, Any]) -> Row | None:
    """LMSYS' conversations, which are ShareGPT's under the names of the API."""
    said = record["conversation"]
    if not isinstance(said, list) or not all(isinstance(message, Mapping) for message in said):
        raise RowError("conversation must be a list of messages with role and content")
    return sharegpt_row({"items": [{"from": one.get("role"), "value": one.get("content")} for one in said]})


#: By the key that only rows of this form have.
_FORMS: dict[str, RowReader] = {
    "body": _batch_row,
    "instruction": _instruction_row,
    "turns": _turns_row,
    "conversations": sharegpt_row,
    "items": sharegpt_row,
    "conversation": _lmsys_row,
}
