"""SWE-bench: issues of real software projects. The prompt asks for a patch, which is not judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from jobs.datasets.formats.rows import Category, Record, Row, Words, checked

_EXAMPLE = '{"repo": "owner/name", "problem_statement": "..."}'
_ASK = """You are given an issue of the repository {repo}. Write a patch in unified diff format that resolves it.

<issue>
{issue}
</issue>

Answer with the patch alone.
"""


class _Issue(Record):
    repo: Category
    problem_statement: Words | None = None
    text: Words | None = None  # the whole prompt, in the variants of the dataset that come with retrieved files
    patch: str | None = None

    @model_validator(mode="after")
    def _has_something_to_ask(self) -> Self:
        if self.problem_statement is None and self.text is None:
            raise ValueError("the row has no problem_statement (and no text)")
        return self


def row(record: Mapping[str, Any]) -> Row:
    """Parse a record: the repository is the category, the reference patch gives the answer's length. Raises
    RowError.
    """
    issue = checked(_Issue, record, _EXAMPLE)
    text = issue.text or _ASK.format(repo=issue.repo, issue=issue.problem_statement)
    return Row(text=text, category=issue.repo, reply=issue.patch or None)
