"""The values of the Submit form: the fields of a study and of its rows by path, like `speculation.model`.

They become the dictionary that `lab.study.parsing` validates, so the form and a file give the same errors. Fields that
hold a table, such as flags, are texts; each text reads back as the value it was written from.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import tomli_w
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lab.errors import StudyError
from lab.study import Arm, Load, Study, Workload
from lab.study.duration import duration_text
from lab.study.parsing import study_from_dict, study_to_toml
from lab.study.study import UNTIL_DECIDED

Problem = tuple[str, str]
Row = Mapping[str, Any]
#: The method of an arm that has no `speculation.method`.
NO_SPECULATION = "none"
#: The values of `sessions.think` that need seconds.
TIMED = ("fixed", "exponential")
TABLES: Mapping[str, type[BaseModel]] = {"arms": Arm, "workloads": Workload, "loads": Load}
#: The form's field for `budget_s`, a text like 45 min, as files have it.
BUDGET = "budget"
_RANGE = re.compile(r"(\d{1,9})(?:\s*[-–]\s*(\d{1,9}))?\s*:\s*(\d{1,9})")
_SIZE = re.compile(r"(\d{1,9})\s*:\s*(\d{1,9})")
#: Engine configurations have about a page.
_MOST_CONFIG_CHARACTERS = 100_000


class UnreadableError(Exception):
    """A text that cannot be parsed; the message says how to write it."""


def flags_text(flags: Mapping[str, Any]) -> str:
    """Write one flag or option per line: `max-num-seqs = 8` or `schedule = [[1, 4, 3], [5, 512, 0]]`."""
    return "\n".join(f"{_key(name)} = {inline(value)}" for name, value in flags.items())


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def inline(value: Any) -> str:
    """Write the value as TOML on one line; tomli_w writes a list on several."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def read_flags(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f'not valid TOML ({error}): write one per line, like max-num-seqs = 8 or dtype = "float32"'
        ) from None


def list_text(value: Any) -> str:
    """Write a list or table as a person types it: `1-4: 3, 5-512: 0` (a schedule), `4: 3, 8: 2` or `0.8, 0.5`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{size}: {tokens}" for size, tokens in value.items())
    if isinstance(value, list) and all(isinstance(entry, list) and len(entry) == 3 for entry in value):
        return ", ".join(f"{first}-{last}: {tokens}" for first, last, tokens in value)
    if isinstance(value, list) and not any(isinstance(entry, list | Mapping) for entry in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else inline(value)


def read_ranges(text: str) -> list[list[int]] | str:
    """Read `1-4: 3, 5-512: 0` as [[1, 4, 3], [5, 512, 0]]; any other text is returned unchanged."""
    found = [_RANGE.fullmatch(part) for part in _parts(text)]
    return [[int(n[1]), int(n[2] or n[1]), int(n[3])] for n in found if n] if found and all(found) else text


def read_sizes(text: str) -> dict[str, int] | str:
    """Read `4: 3, 8: 2` as {"4": 3, "8": 2}; any other text is returned unchanged."""
    found = [_SIZE.fullmatch(part) for part in _parts(text)]
    return {str(int(n[1])): int(n[2]) for n in found if n} if found and all(found) else text


def read_numbers(text: str) -> list[int | float] | str:
    """Read `0.8, 0.5` as [0.8, 0.5]; any other text is returned unchanged."""
    try:
        return [float(part) if "." in part else int(part) for part in _parts(text)] or text
    except ValueError:
        return text


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def config_text(config: Mapping[str, Any]) -> str:
    """Write YAML, as engines read it; empty for an empty configuration."""
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).strip("\n") if config else ""


class _PlainLoader(yaml.SafeLoader):
    """A YAML loader that refuses references: ten lines of them can name a value a billion times."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "references (*name) are not supported", alias.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def read_config(text: str) -> dict[str, Any]:
    if len(text) > _MOST_CONFIG_CHARACTERS:
        raise UnreadableError(f"it has {len(text):,} characters: the limit is {_MOST_CONFIG_CHARACTERS:,}")
    try:
        config = yaml.load(text, _PlainLoader)  # noqa: S506 - a SafeLoader with less
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number with too many digits
        raise UnreadableError(f"not a configuration: {error}") from None
    except yaml.YAMLError as error:
        raise UnreadableError(f"not valid YAML: {' '.join(str(error).split())}") from None
    if config is None:
        return {}
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise UnreadableError("the YAML has no keys: write one per line, like kv-cache-dtype: fp8")
    return config


def environment_text(environment: Mapping[str, str]) -> str:
    """Write one NAME=value per line; a value that does not fit on a line becomes a JSON string."""
    return "\n".join(
        f"{name}={value if _is_plain(value) else json.dumps(value)}" for name, value in environment.items()
    )


def _is_plain(value: str) -> bool:
    return value == value.strip() and value.isprintable() and not value.startswith('"')


def read_environment(text: str) -> dict[str, str]:
    lines = enumerate(text.split("\n"), start=1)
    return dict(_variable(number, line.strip()) for number, line in lines if line.strip())


def _variable(number: int, line: str) -> tuple[str, str]:
    name, sign, value = line.partition("=")
    if not sign or not name.strip():
        raise UnreadableError(f"line {number} is not a variable: write one NAME=value per line")
    try:
        return name.strip(), json.loads(value) if value.startswith('"') else value
    except json.JSONDecodeError as error:
        raise UnreadableError(
            f"line {number}: the value begins with a quote but is not a JSON string ({error})"
        ) from None


@dataclass(frozen=True)
class TextFormat:
    """The text format of a field that holds a table."""

    name: str
    write: Callable[[Mapping[str, Any]], str]
    read: Callable[[str], dict[str, Any]]


_TOML = TextFormat("TOML, one per line", flags_text, read_flags)
#: The format of a text by the last part of its field's path.
TEXTS: Mapping[str, TextFormat] = {
    "flags": _TOML,
    "engine_flags": _TOML,
    "options": _TOML,
    "tune": _TOML,
    "config": TextFormat("YAML", config_text, read_config),
    "environment": TextFormat("NAME=value", environment_text, read_environment),
}


def field_of(model: type[BaseModel], path: str) -> tuple[FieldInfo, str]:
    """Return the field that a path begins with, and the rest of the path: `x` of `flags.x`."""
    name, _, rest = path.partition(".")
    info = model.model_fields["budget_s" if name == BUDGET else name]
    inner = None if name in TEXTS else _part_model(info)
    if inner is None or rest.partition(".")[0] not in inner.model_fields:
        return info, rest
    return field_of(inner, rest)


def _part_model(info: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that has fields itself, such as an arm's server."""
    types = (info.annotation, *get_args(info.annotation))
    return next((of for of in types if isinstance(of, type) and issubclass(of, BaseModel)), None)


@dataclass(frozen=True)
class FormValues:
    """The content of the form; None and empty values stand for the study's default."""

    fields: Row
    arms: tuple[Row, ...]
    workloads: tuple[Row, ...]
    loads: tuple[Row, ...]


def from_study(study: Study) -> FormValues:
    fields = row_of(Study, study)
    seconds = fields.pop("budget_s")
    fields[BUDGET] = "" if seconds is None else duration_text(seconds)
    rows = {table: tuple(row_of(model, part) for part in getattr(study, table)) for table, model in TABLES.items()}
    return FormValues(fields, **rows)


def row_of(model: type[BaseModel], part: BaseModel | None) -> dict[str, Any]:
    """Return the fields of a part of a study by path; all None if there is no such part."""
    row: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        value, inner = getattr(part, name, None), _part_model(info)
        if name in TABLES:
            continue
        if name in TEXTS:
            table = value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value
            row[name] = TEXTS[name].write(table or {})
        elif inner is not None:
            row |= {f"{name}.{path}": item for path, item in row_of(inner, value).items()}
        else:
            row[name] = value
    if model is Arm:
        row["speculation.method"] = row["speculation.method"] or NO_SPECULATION
    return row


#: The paths of the study's own fields.
FIELDS = tuple(BUDGET if path == "budget_s" else path for path in row_of(Study, None))


def to_study(values: FormValues) -> Study:
    """Validate the form. Raises StudyError, in whose paths the indices count the form's rows."""
    data, problems = to_dict(values)
    try:
        study = study_from_dict(data)
    except StudyError as error:
        problems = [*problems, *error.problems]
    if problems:
        raise StudyError(problems)
    return study


def to_toml(values: FormValues) -> str:
    """Write the study as TOML, even if it is not valid yet; then without the text fields that cannot be parsed."""
    try:
        return study_to_toml(to_study(values))
    except StudyError:
        return tomli_w.dumps(to_dict(values)[0])


def to_dict(values: FormValues) -> tuple[dict[str, Any], list[Problem]]:
    """Return the dictionary that `lab.study.parsing` validates, and the problems of texts that cannot be parsed."""
    problems: list[Problem] = []
    data = _nested(values.fields, "", problems)
    if BUDGET in data:
        data["repeats"] = UNTIL_DECIDED
    for table in TABLES:
        rows = enumerate(getattr(values, table))
        data[table] = [_nested(_that_count(row), f"{table}[{index}].", problems) for index, row in rows]
    return data, problems


def _that_count(row: Row) -> Row:
    """Drop the method `none`, sessions that are not replayed, and the seconds of think times that need none."""
    without = {"speculation.method"} if row.get("speculation.method") == NO_SPECULATION else set()
    without |= set() if row.get("sessions.think") in TIMED else {"sessions.think_s"}
    without |= set() if row.get("sessions.answers") else {path for path in row if path.startswith("sessions.")}
    return {path: value for path, value in row.items() if path not in without}


def _nested(row: Row, beginning: str, problems: list[Problem]) -> dict[str, Any]:
    """Nest the row's values by their paths, without empty ones. A text that cannot be parsed adds a problem, whose path
    starts with `beginning`.
    """
    data: dict[str, Any] = {}
    for path, value in row.items():
        *parts, name = path.split(".")
        if value in (None, ""):
            continue
        if name in TEXTS:
            try:
                value = TEXTS[name].read(value)  # noqa: PLW2901 - what the text says
            except UnreadableError as error:
                problems.append((f"{beginning}{path}", str(error)))
                continue
            if not value and name != "tune":  # an empty tuning is one with the usual numbers of tokens
                continue
        elif isinstance(value, float) and value.is_integer():
            value = int(value)  # noqa: PLW2901 - as a person writes it
        part = data
        for of in parts:
            part = part.setdefault(of, {})
        part[name] = value
    return data
