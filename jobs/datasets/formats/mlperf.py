"""MLPerf inference's summarisation task: news articles of CNN and Daily Mail, each with its highlights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.datasets.formats.rows import Record, Row, RowError, Words, checked

_EXAMPLE = '{"instruction": "...", "input": "the article", "output": "its highlights"}'
#: The instruction for articles that come without one, as in the task's GPT-J version.
_INSTRUCTION = "Summarize the following news article:"


class _Article(Record):
    instruction: Words | dict[str, Words] | None = None
    input: Words
    output: Words


class _Raw(Record):
    article: Words
    highlights: Words


def row(record: Mapping[str, Any]) -> Row:
    """Parse a record of the task's own file (cnn_eval.json), or of the raw dataset. Raises RowError."""
    if isinstance(record, Mapping) and "article" in record:
        raw = checked(_Raw, record, _EXAMPLE)
        return Row(text=f"{_INSTRUCTION}\n\n{raw.article}", category="summarisation", reply=raw.highlights)
    article = checked(_Article, record, _EXAMPLE)
    return Row(text=_prompt(article), category="summarisation", reply=article.output)


def _prompt(article: _Article) -> str:
    """An instruction may be a template with {input}, under the name of the model that it was written for."""
    if isinstance(article.instruction, dict):
        if len(article.instruction) != 1:
            raise RowError("instruction must be a text, or one template under the name of its model")
        (template,) = article.instruction.values()
        if "{input}" not in template:
            raise RowError("instruction: the template has no {input}, where the article is inserted")
        return template.replace("{input}", article.input)
    return f"{article.instruction or _INSTRUCTION}\n\n{article.input}"
