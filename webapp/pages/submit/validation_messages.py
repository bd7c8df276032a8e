"""Assigns each problem of a study to the field, row or table of the form that shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Problem = tuple[str, str]

#: The path of a row's field: its table, its place and the rest.
ROW = re.compile(r"^(arms|workloads|loads)\[(\d+)\]\.?(.*)$")
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
    "answers": "replayed answers",
    "max_turns": "turns at most",
    "think": "pause before each later turn",
    "think_s": "seconds of the pause",
    "slo_share": "share within the SLO",
    "find_from": "search from",
    "find_to": "search up to",
}
TABLES = ("arms", "workloads", "loads")
#: Of the study's own fields, where the label is not the name.
_FIELD_LABELS = {
    "target": "target model",
    "budget": "until decided, within",
    "slo.ttft_ms": "TTFT bound",
    "slo.tpot_ms": "TPOT bound",
    "slo.e2e_ms": "E2E latency bound",
    "price_usd_per_hour": "price",
    "tune": "tuning",
}
#: Where the problems of no field stand, those of the study as text among them.
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Listed:
    """A problem in a list: the field it is about, what is wrong, and the id of the element that says so beside it."""

    where: str
    sentence: str
    anchor: str


def listed(problems: Sequence[Problem], fields: Sequence[str]) -> list[Listed]:
    """Every problem, in the order of the form's fields if they came so."""
    return [_listed(path, sentence, fields) for path, sentence in problems]


def anchor(table_or_field: str, place: int | None = None) -> str:
    """The id of the element that shows the problems of a field, of a row (counted from 0), or of a table."""
    name = table_or_field.replace(".", "-")
    return f"problem-{name}" if place is None else f"problem-{name}-{place}"


def _listed(path: str, sentence: str, fields: Sequence[str]) -> Listed:
    if row := ROW.match(path):
        label = _label(row[3])
        place = int(row[2])
        where = f"{row[1].removesuffix('s').capitalize()} {place + 1}" + (f", {label}" if label else "")
        return Listed(where, sentence, anchor(row[1], place))
    if table := _about_table(path, sentence):
        return Listed(table.capitalize(), sentence.removeprefix(f"{table}: "), anchor(table))
    field = next((field for field in fields if path == field or path.startswith(f"{field}.")), None)
    if field is None:
        return Listed(path or "Study", sentence, anchor(ELSEWHERE))
    label = _FIELD_LABELS.get(field, field.rpartition(".")[2].replace("_", " "))
    return Listed(label[0].upper() + label[1:], sentence, anchor(field))


def of_field(problems: Sequence[Problem], field: str) -> list[str]:
    """The messages for one field and anything below it (`engine_flags.x`)."""
    return [
        f"{path.removeprefix(field).lstrip('.')} {sentence}".strip()
        for path, sentence in problems
        if path == field or path.startswith(f"{field}.")
    ]


def of_row(problems: Sequence[Problem], table: str, place: int) -> list[str]:
    """The messages for one row of a table, each beginning with its column."""
    matches = [(ROW.match(path), sentence) for path, sentence in problems]
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
        if not ROW.match(path) and _about_table(path, sentence) == table
    ]


def elsewhere(problems: Sequence[Problem], fields: Sequence[str]) -> list[str]:
    """The messages that belong to no field and no table."""
    return [
        f"{path}: {sentence}" if path else sentence
        for path, sentence in problems
        if not _about_table(path, sentence)
        and not any(path == field or path.startswith(f"{field}.") for field in fields)
    ]


def moved(problems: Sequence[Problem], places: Mapping[str, Sequence[int]]) -> list[Problem]:
    """Problems of some rows of the form, with their places in it."""
    return [
        (f"{row[1]}[{places[row[1]][int(row[2])]}]{path[row.end(2) + 1 :]}", sentence)
        if (row := ROW.match(path))
        else (path, sentence)
        for path, sentence in problems
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
