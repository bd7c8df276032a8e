"""Which sentence about a study stands beside which field of the form. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

Problem = tuple[str, str]

_ROW = re.compile(r"^(arms|workloads|loads)\[(\d+)\]\.?(.*)$")
#: The last part of a path -> the column's title in the form's tables.
COLUMNS = {
    "name": "name",
    "engine": "engine",
    "method": "method",
    "model": "draft model",
    "num_speculative_tokens": "k",
    "prompt_lookup_min": "n min",
    "prompt_lookup_max": "n max",
    "output_tokens": "output tokens",
    "max_concurrency": "concurrency",
    "num_prompts": "prompts",
    "request_rate_rps": "rate",
}
TABLES = ("arms", "workloads", "loads")


def of_field(problems: Sequence[Problem], field: str) -> list[str]:
    """The sentences for one field, and for anything under it (`engine_flags.x`)."""
    return [
        f"{path.removeprefix(field).lstrip('.')} {sentence}".strip()
        for path, sentence in problems
        if path == field or path.startswith(f"{field}.")
    ]


def of_table(problems: Sequence[Problem], table: str) -> list[str]:
    """The sentences for one of the tables, each with its row (counted from 1) and column."""
    said = []
    for path, sentence in problems:
        if found := _ROW.match(path):
            if found[1] == table:
                said.append(f"Row {int(found[2]) + 1}{_column(found[3])}: {sentence}")
        elif _about_table(path, sentence) == table:
            said.append(sentence.removeprefix(f"{table}: "))
    return said


def elsewhere(problems: Sequence[Problem], fields: Sequence[str]) -> list[str]:
    """What belongs to no field and no table of the form."""
    return [
        f"{path}: {sentence}" if path else sentence
        for path, sentence in problems
        if not _about_table(path, sentence)
        and not any(path == field or path.startswith(f"{field}.") for field in fields)
    ]


def _about_table(path: str, sentence: str) -> str | None:
    """A sentence about the whole study may begin with the table it is about."""
    words = path or sentence
    return next((table for table in TABLES if re.match(rf"{table}\b", words)), None)


def _column(path: str) -> str:
    last = path.rpartition(".")[2]
    return f", {COLUMNS.get(last, last)}" if last else ""
