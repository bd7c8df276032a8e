"""A study as the submit page's fields and tables, and back. Pure: what the form holds becomes the dictionary that
`lab.study_text` validates, so a form and a file are refused with the same sentences.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tomli_w

from lab.errors import StudyError
from lab.study import Arm, Study
from lab.study_text import study_from_dict

NO_SPECULATION = "none"
#: Column -> key of a speculation.
_SPECULATION = {
    "draft_model": "model",
    "k": "num_speculative_tokens",
    "lookup_min": "prompt_lookup_min",
    "lookup_max": "prompt_lookup_max",
}
ARM_TYPES = {
    "name": "str",
    "baseline": "bool",
    "engine": "str",
    "method": "str",
    "draft_model": "str",
    "k": "Int64",
    "lookup_min": "Int64",
    "lookup_max": "Int64",
    "flags": "str",
}
WORKLOAD_TYPES = {"dataset": "str", "category": "str", "output_tokens": "Int64", "ignore_eos": "bool"}
LOAD_TYPES = {
    "max_concurrency": "Int64",
    "num_prompts": "Int64",
    "request_rate_rps": "Float64",
    "burstiness": "Float64",
}
#: Fields that stand under another key in the study.
_NESTED = ("sampling", "slo")


@dataclass(frozen=True)
class FormValues:
    """Everything the form holds. `fields` are keyed by path (`sampling.seed`); a None is left to the default."""

    fields: Mapping[str, Any]
    arms: pd.DataFrame
    workloads: pd.DataFrame
    loads: pd.DataFrame


def from_study(study: Study) -> FormValues:
    plain = ("name", "target", "repeats", "order", "seed", "endpoint")
    fields: dict[str, Any] = {key: getattr(study, key) for key in plain}
    fields["price_usd_per_hour"] = study.price_usd_per_hour
    fields["engine_flags"] = tomli_w.dumps(study.engine_flags).strip()
    for part in _NESTED:
        fields |= {f"{part}.{key}": value for key, value in getattr(study, part)}
    return FormValues(
        fields,
        _table([_arm_row(arm) for arm in study.arms], ARM_TYPES),
        _table([dict(workload) for workload in study.workloads], WORKLOAD_TYPES),
        _table([dict(load) for load in study.loads], LOAD_TYPES),
    )


def to_study(values: FormValues) -> Study:
    """Raises StudyError; the indices in its paths are the rows of the tables."""
    problems: list[tuple[str, str]] = []
    data: dict[str, Any] = {part: {} for part in _NESTED}
    for path, value in values.fields.items():
        part, _, key = path.rpartition(".")
        (data[part] if part else data)[key] = value
    data["engine_flags"] = _flags(values.fields["engine_flags"], "engine_flags", problems)
    data["arms"] = [_arm(row, place, problems) for place, row in enumerate(_rows(values.arms))]
    data["workloads"] = [_given(row) for row in _rows(values.workloads)]
    data["loads"] = [_given(row) for row in _rows(values.loads)]
    data = {
        key: _given(value) if isinstance(value, dict) else value for key, value in data.items() if value is not None
    }
    try:
        study = study_from_dict(data)
    except StudyError as error:
        problems = [*problems, *error.problems]
    if problems:
        raise StudyError(problems)
    return study


def _arm_row(arm: Arm) -> dict[str, Any]:
    speculation = arm.speculation
    row = {"name": arm.name, "baseline": arm.baseline, "engine": arm.engine, "flags": _inline(arm.flags)}
    if speculation is None:
        return row | {"method": NO_SPECULATION}
    columns = {column: getattr(speculation, key) for column, key in _SPECULATION.items()}
    return row | {"method": speculation.method} | columns


def _arm(row: Mapping[str, Any], place: int, problems: list[tuple[str, str]]) -> dict[str, Any]:
    """A method of none together with a draft model or k is left to the validation, which asks for the method."""
    given = _given(row)
    speculation = {key: given[column] for column, key in _SPECULATION.items() if column in given}
    if given.get("method", NO_SPECULATION) != NO_SPECULATION:
        speculation["method"] = given["method"]
    arm: dict[str, Any] = {key: given[key] for key in ("name", "engine", "baseline") if key in given}
    arm["flags"] = _flags(given.get("flags", ""), f"arms[{place}].flags", problems, inline=True)
    return arm | ({"speculation": speculation} if speculation else {})


def _flags(text: str | None, path: str, problems: list[tuple[str, str]], *, inline: bool = False) -> dict[str, Any]:
    """`max-num-seqs = 8, enforce-eager = true` (inline) or one such pair a line."""
    try:
        return dict(tomllib.loads(f"flags = {{{text or ''}}}")["flags"] if inline else tomllib.loads(text or ""))
    except tomllib.TOMLDecodeError as error:
        example = "max-num-seqs = 8, enforce-eager = true" if inline else 'one a line, like dtype = "float32"'
        problems.append((path, f"these flags are no TOML ({error}): write {example}"))
        return {}


def _inline(flags: Mapping[str, Any]) -> str:
    return ", ".join(tomli_w.dumps({key: value}).strip() for key, value in flags.items())


def _table(rows: list[dict[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(types)).astype(dict(types))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without the empty cells; a whole number that a table made a float is whole again."""
    return {key: _whole(value) for key, value in row.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or value is pd.NA or value == "" or (isinstance(value, float) and math.isnan(value))


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
