"""Assigns each problem of a study to the field, row or table of the form that shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

Problem = tuple[str, str]

_ROW = re.compile(r"^(arms|workloads|loads)\[(\d+)\]\.?(.*)$")
#: Last part of a path -> the form's label.
LABELS = {
    "model": "draft model",
    "num_speculative_tokens": "k",
    "prompt_lookup_min": "shortest match",
    "prompt_lookup_max": "longest match",
    "options": "options of the method",
    "config": "configuration file",
    "base_url": "server URL",
    "served_model": "served model",
    "api_key": "API key secret",
    "max_concurrency": "concurrency",
    "num_prompts": "prompts",
    "request_rate_rps": "rate",
    "ramp_to_rps": "rate at the end",
    "duration_s": "end after",
    "stop_on_error_share": "share of failures",
    "find": "search",
    "slo_share": "share within the SLO",
    "find_from": "search from",
    "find_to": "search up to",
}
TABLES = ("arms", "workloads", "loads")


def of_field(problems: Sequence[Problem], field: str) -> list[str]:
    """The messages for one field and anything below it (`engine_flags.x`)."""
    return [
        f"{path.removeprefix(field).lstrip('.')} {sentence}".strip()
        for path, sentence in problems
        if path == field or path.startswith(f"{field}.")
    ]


def of_row(problems: Sequence[Problem], table: str, place: int) -> list[str]:
    """The messages for one row of a table, each beginning with its column."""
    matches = [(_ROW.match(path), sentence) for path, sentence in problems]
    return [
        f"{label}: {sentence}" if (label := _label(row[3])) else sentence
        for row, sentence in matches
        if row is not None and row[1] == table and int(row[2]) == place
    ]


def of_table(problems: Sequence[Problem], table: str) -> list[str]:
    """The messages about a table as a whole."""
    return [
        sentence.removeprefix(f"{table}: ")
        for path, sentence in problems
        if not _ROW.match(path) and _about_table(path, sentence) == table
    ]


def elsewhere(problems: Sequence[Problem], fields: Sequence[str]) -> list[str]:
    """The messages that belong to no field and no table."""
    return [
        f"{path}: {sentence}" if path else sentence
        for path, sentence in problems
        if not _about_table(path, sentence)
        and not any(path == field or path.startswith(f"{field}.") for field in fields)
    ]


def _about_table(path: str, sentence: str) -> str | None:
    """The table that a problem of the whole study names first, if any."""
    text = path or sentence
    return next((table for table in TABLES if re.match(rf"{table}\b", text)), None)


def _label(path: str) -> str:
    """`speculation.model` is the draft model; `flags.x` becomes `flags, x`."""
    *_, parent, last = ("", "", *path.split("."))
    label = LABELS.get(last, last.replace("_", " "))
    return f"{LABELS.get(parent, parent)}, {last}" if parent in ("flags", "options", "config", "environment") else label
