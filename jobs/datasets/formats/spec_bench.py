"""Spec-Bench: six kinds of tasks for measuring speculative decoding. The first turn of each is the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from jobs.datasets.formats.rows import Category, Record, Row, Words, checked

_EXAMPLE = '{"question_id": 1, "category": "writing", "turns": ["..."]}'
#: The file keeps MT-bench's own eight categories; together they are the first of the six of Spec-Bench.
_MULTI_TURN = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities", "mt_bench")
)


class _Question(Record):
    category: Category
    turns: Annotated[list[Words], Field(min_length=1)]


def row(record: Mapping[str, Any]) -> Row:
    """Parse a record. Raises RowError."""
    question = checked(_Question, record, _EXAMPLE)
    category = "multi_turn" if question.category in _MULTI_TURN else question.category
    return Row(text=question.turns[0], category=category)
