"""Conversations with ChatGPT: the first human turn is the prompt, and the reply gives the length of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from jobs.datasets.formats.rows import Record, Row, checked

_EXAMPLE = '{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}'
_HUMAN = ("human", "user")


class _Turn(Record):
    speaker: str = Field(alias="from")
    value: str


class _Conversation(Record):
    conversations: list[dict[str, Any]]


def row(record: Mapping[str, Any]) -> Row | None:
    """Parse a record; None for a conversation without a human turn that is followed by a reply. Raises RowError."""
    turns = checked(_Conversation, record, _EXAMPLE).conversations
    first = next((place for place, turn in enumerate(turns) if turn.get("from") in _HUMAN), len(turns))
    if first + 2 > len(turns):
        return None
    prompt, reply = (checked(_Turn, turn, _EXAMPLE) for turn in turns[first : first + 2])
    if reply.speaker in (*_HUMAN, "system") or not prompt.value.strip() or not reply.value.strip():
        return None
    return Row(text=prompt.value, reply=reply.value)


def fits(prompt_tokens: int, output_tokens: int) -> bool:
    """Accept the lengths that `vllm bench serve` uses of this dataset, so that results can be compared."""
    return 4 <= prompt_tokens <= 1024 and output_tokens >= 4 and prompt_tokens + output_tokens <= 2048
