"""Conversion between a study and the Submit form's fields and rows, some of which are edited as text.

The form's values become the dictionary that `lab.study.parsing` validates, so the form and a file give the same errors.
Flags and options (TOML), the engine's configuration file (YAML) and environment variables (NAME=value) of an arm are
texts; each reads back as the value it was written from.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w
import yaml

from lab.errors import StudyError
from lab.study import Arm, Load, Study, Workload
from lab.study.duration import duration_text
from lab.study.parsing import study_from_dict, study_to_toml
from lab.study.study import UNTIL_DECIDED
from webapp.pages.submit import validation_messages
from webapp.pages.submit.validation_messages import Problem

NO_SPECULATION = "none"
Row = Mapping[str, Any]
_RANGE = re.compile(r"(\d{1,9})(?:\s*[-–]\s*(\d{1,9}))?\s*:\s*(\d{1,9})")
_SIZE = re.compile(r"(\d{1,9})\s*:\s*(\d{1,9})")
#: Column -> key of a speculation.
_SPECULATION = {
    "method": "method",
    "draft_model": "model",
    "k": "num_speculative_tokens",
    "lookup_min": "prompt_lookup_min",
    "lookup_max": "prompt_lookup_max",
}
#: Column -> key of a workload's sessions; without answers there are none.
_SESSIONS = {"session_answers": "answers", "max_turns": "max_turns", "think": "think", "think_s": "think_s"}
#: The waits of sessions that have seconds of their own.
TIMED = ("fixed", "exponential")
_SERVER = ("base_url", "served_model", "api_key")
_PLAIN = ("name", "engine", "baseline")
#: Parts of a study whose fields the form holds as `part.field`.
_NESTED = ("sampling", "slo")
_STUDY = (
    "name",
    "target",
    "repeats",
    "repeats_per_launch",
    "fresh_starts",
    "alone",
    "spread",
    "order",
    "seed",
    "endpoint",
    "hardware",
    "price_usd_per_hour",
)


#: Configurations of engines have a page.
_MOST_CONFIG_CHARACTERS = 100_000


class UnreadableError(Exception):
    """A text that cannot be parsed; the message says how to write it."""


def flags_text(flags: Mapping[str, Any]) -> str:
    """One flag or option per line, like `max-num-seqs = 8` or `schedule = [[1, 4, 3], [5, 512, 0]]`."""
    return "\n".join(f"{_key(name)} = {_inline(value)}" for name, value in flags.items())


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def _inline(value: Any) -> str:
    """The value as TOML on one line; tomli_w writes a list on several."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def read_flags(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f'not valid TOML ({error}): write one per line, like max-num-seqs = 8 or dtype = "float32"'
        ) from None


def list_text(value: Any) -> str:
    """A list or table as a person types it: `1-4: 3, 5-512: 0` of a schedule, `4: 3, 8: 2` of a table, `0.8, 0.5`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{size}: {tokens}" for size, tokens in value.items())
    if isinstance(value, list) and all(isinstance(entry, list) and len(entry) == 3 for entry in value):
        return ", ".join(f"{first}-{last}: {tokens}" for first, last, tokens in value)
    if isinstance(value, list) and not any(isinstance(entry, list | Mapping) for entry in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else _inline(value)


def read_ranges(text: str) -> list[list[int]] | str:
    """`1-4: 3, 5-512: 0` as [[1, 4, 3], [5, 512, 0]]; a text that is written otherwise comes back as it is."""
    found = [_RANGE.fullmatch(part) for part in _parts(text)]
    return [[int(n[1]), int(n[2] or n[1]), int(n[3])] for n in found if n] if found and all(found) else text


def read_sizes(text: str) -> dict[str, int] | str:
    """`4: 3, 8: 2` as {"4": 3, "8": 2}; a text that is written otherwise comes back as it is."""
    found = [_SIZE.fullmatch(part) for part in _parts(text)]
    return {str(int(n[1])): int(n[2]) for n in found if n} if found and all(found) else text


def read_numbers(text: str) -> list[int | float] | str:
    """`0.8, 0.5` as [0.8, 0.5]; a text that is written otherwise comes back as it is."""
    try:
        return [float(part) if "." in part else int(part) for part in _parts(text)] or text
    except ValueError:
        return text


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def config_text(config: Mapping[str, Any]) -> str:
    """YAML, as engines read it; empty for an empty configuration."""
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).strip("\n") if config else ""


class _PlainLoader(yaml.SafeLoader):
    """YAML without references: ten lines of them can name a value a billion times."""

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
    """One NAME=value per line; a value that does not fit on a line as it is becomes a JSON string."""
    return "\n".join(f"{name}={_quoted(value)}" for name, value in environment.items())


def _quoted(value: str) -> str:
    plain = value == value.strip() and value.isprintable() and not value.startswith('"')
    return value if plain else json.dumps(value)


def read_environment(text: str) -> dict[str, str]:
    lines = enumerate(text.split("\n"), start=1)
    return dict(_variable(number, line.strip()) for number, line in lines if line.strip())


def _variable(number: int, line: str) -> tuple[str, str]:
    name, sign, value = line.partition("=")
    if not sign or not name.strip():
        raise UnreadableError(f"line {number} is not a variable: write one NAME=value per line")
    try:
        quoted = json.loads(value) if value.startswith('"') else value
    except json.JSONDecodeError as error:
        raise UnreadableError(
            f"line {number}: the value begins with a quote but is not a JSON string ({error})"
        ) from None
    return name.strip(), quoted


#: Column -> how its text is parsed; any other column holds flags.
READERS: dict[str, Callable[[str], dict[str, Any]]] = {"config": read_config, "environment": read_environment}


@dataclass(frozen=True)
class FormValues:
    """The content of the form. `fields` are keyed by path (`sampling.seed`), rows by column; None and empty values
    stand for the study's default.
    """

    fields: Row
    arms: tuple[Row, ...]
    workloads: tuple[Row, ...]
    loads: tuple[Row, ...]


def from_study(study: Study) -> FormValues:
    fields: dict[str, Any] = {key: getattr(study, key) for key in _STUDY}
    fields["engine_flags"] = flags_text(study.engine_flags)
    fields["tune"] = "" if study.tune is None else flags_text(study.tune.model_dump(mode="json", exclude_none=True))
    fields["budget"] = "" if study.budget_s is None else duration_text(study.budget_s)
    for part in _NESTED:
        fields |= {f"{part}.{key}": value for key, value in getattr(study, part)}
    return FormValues(
        fields,
        tuple(arm_row(arm) for arm in study.arms),
        tuple(workload_row(workload) for workload in study.workloads),
        tuple(load_row(load) for load in study.loads),
    )


def arm_row(arm: Arm) -> dict[str, Any]:
    row: dict[str, Any] = {key: getattr(arm, key) for key in _PLAIN}
    row |= {column: getattr(arm.speculation, key, None) for column, key in _SPECULATION.items()}
    row["method"] = row["method"] or NO_SPECULATION
    row["options"] = flags_text(arm.speculation.options if arm.speculation else {})
    row |= {key: getattr(arm.server, key, None) for key in _SERVER}
    return row | {
        "flags": flags_text(arm.flags),
        "config": config_text(arm.config),
        "environment": environment_text(arm.environment),
    }


def workload_row(workload: Workload) -> dict[str, Any]:
    row = {key: value for key, value in workload if key != "sessions"}
    return row | {column: getattr(workload.sessions, key, None) for column, key in _SESSIONS.items()}


def load_row(load: Load) -> dict[str, Any]:
    return dict(load)


def to_study(values: FormValues) -> Study:
    """Raises StudyError; the indices in its paths count the form's rows."""
    data, problems = to_dict(values)
    try:
        study = study_from_dict(data)
    except StudyError as error:
        problems = [*problems, *error.problems]
    if problems:
        raise StudyError(problems)
    return study


def sound_part(values: FormValues, problems: Sequence[Problem]) -> tuple[Study, dict[str, list[int]]] | None:
    """The study without the fields and rows that have problems, and by table the places of the rows that are left; None
    if they make no study.
    """
    wrong = {(row[1], int(row[2])) for path, _ in problems if (row := validation_messages.ROW.match(path))}
    places = {
        table: [place for place in range(len(getattr(values, table))) if (table, place) not in wrong]
        for table in validation_messages.TABLES
    }
    fields = {key: None if validation_messages.of_field(problems, key) else values.fields[key] for key in values.fields}
    arms, *others = ([dict(getattr(values, table)[place]) for place in kept] for table, kept in places.items())
    if arms and not any(arm.get("baseline") for arm in arms):
        arms[0]["baseline"] = True  # the one that was may be among those left out
    sound = FormValues(fields | {"name": fields["name"] or "unnamed"}, tuple(arms), *map(tuple, others))
    try:
        return to_study(sound), places
    except StudyError:
        return None


def to_toml(values: FormValues) -> str:
    """The study as TOML, even if it is not valid yet; then without the text fields that cannot be parsed."""
    try:
        return study_to_toml(to_study(values))
    except StudyError:
        return tomli_w.dumps(to_dict(values)[0])


def to_dict(values: FormValues) -> tuple[dict[str, Any], list[Problem]]:
    """The dictionary that `lab.study.parsing` validates, and the problems of text fields that cannot be parsed."""
    problems: list[Problem] = []
    data: dict[str, Any] = {part: {} for part in _NESTED}
    for path, value in _filled(values.fields).items():
        part, _, key = path.rpartition(".")
        (data[part] if part else data)[key] = value
    if "budget" in data:
        data["repeats"] = UNTIL_DECIDED
    data["engine_flags"] = _read(values.fields, "engine_flags", "engine_flags", problems)
    if "tune" in data:
        data["tune"] = _read(values.fields, "tune", "tune", problems)
    data["arms"] = [_arm(row, f"arms[{place}]", problems) for place, row in enumerate(values.arms)]
    data["workloads"] = [_workload(row) for row in values.workloads]
    data["loads"] = [_filled(row) for row in values.loads]
    return data, problems


def _workload(row: Row) -> dict[str, Any]:
    """What is set of sessions does not count while the workload replays none, nor seconds that no wait has."""
    filled = _filled(row)
    if filled.get("think") not in TIMED:
        filled.pop("think_s", None)
    sessions = {key: filled.pop(column) for column, key in _SESSIONS.items() if column in filled}
    return filled | ({"sessions": sessions} if "answers" in sessions else {})


def _arm(row: Row, path: str, problems: list[Problem]) -> dict[str, Any]:
    """A draft model or k without a method stays in the form, so that the validation asks for the method."""
    filled = _filled(row)
    arm = {key: filled[key] for key in _PLAIN if key in filled}
    speculation = {key: filled[column] for column, key in _SPECULATION.items() if column in filled}
    if speculation.get("method") == NO_SPECULATION:
        del speculation["method"]
    if options := _read(row, "options", f"{path}.speculation.options", problems):
        speculation["options"] = options
    for part, values in (
        ("speculation", speculation),
        ("server", {key: filled[key] for key in _SERVER if key in filled}),
    ):
        arm |= {part: values} if values else {}
    for key in ("flags", "config", "environment"):
        arm |= {key: read} if (read := _read(row, key, f"{path}.{key}", problems)) else {}
    return arm


def _read(row: Row, column: str, path: str, problems: list[Problem]) -> dict[str, Any]:
    """The parsed text of a column; {} and a new entry in `problems` if it cannot be parsed."""
    reader = READERS.get(column, read_flags)
    try:
        return reader(row.get(column) or "")
    except UnreadableError as error:
        problems.append((path, str(error)))
        return {}


def _filled(row: Row) -> dict[str, Any]:
    """The row without empty values; whole numbers that a widget turned into floats become integers again."""
    return {key: _whole(value) for key, value in row.items() if value not in (None, "")}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
