"""Conversations of people with ChatGPT: the first human turn is asked, and the reply gives the length of the answer."""

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
    """None for a conversation without a human turn and a reply to it. Raises RowError."""
    turns = checked(_Conversation, record, _EXAMPLE).conversations
    first = next((place for place, turn in enumerate(turns) if turn.get("from") in _HUMAN), len(turns))
    if first + 2 > len(turns):
        return None
    asked, replied = (checked(_Turn, turn, _EXAMPLE) for turn in turns[first : first + 2])
    if replied.speaker in (*_HUMAN, "system") or not asked.value.strip() or not replied.value.strip():
        return None
    return Row(text=asked.value, reply=replied.value)


def fits(prompt_tokens: int, output_tokens: int) -> bool:
    """The lengths that `vllm bench serve` uses of this dataset, so that results can be compared."""
    return 4 <= prompt_tokens <= 1024 and output_tokens >= 4 and prompt_tokens + output_tokens <= 2048
