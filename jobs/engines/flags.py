"""A study's flags and settings as words of a command line, in which no value can become a flag; or as a YAML file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from pydantic import JsonValue

from lab.errors import UserError
from lab.study import Arm, FlagValue, Study

Flags = Mapping[str, FlagValue]
Settings = Mapping[str, JsonValue]
CONFIG_FILE = "config.yaml"


def dashed(name: str) -> str:
    """Write a flag with dashes (`max-model-len`); a key of its table is unchanged, as in `config.a_key`."""
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key


def underscored(name: str) -> str:
    """Write a flag with underscores, for programs whose options have them."""
    return name.replace("-", "_")


def merged(study: Study, arm: Arm) -> dict[str, FlagValue]:
    """Return the study's flags overridden by the arm's, in one spelling."""
    return {dashed(name): value for flags in (study.engine_flags, arm.flags) for name, value in flags.items()}


def configured(arm: Arm) -> dict[str, JsonValue]:
    """Return the arm's configuration in the spelling of flags."""
    return {dashed(name): value for name, value in arm.config.items()}


def negatable(settings: Settings) -> Iterator[str]:
    """Yield arguments for programs with `--no-` forms: `--enforce-eager`, or `--no-enforce-eager` for false."""
    for name, value in settings.items():
        yield from (f"--no-{name}",) if value is False and "." not in name else _words(name, value)


def switches(settings: Settings) -> Iterator[str]:
    """Yield arguments for programs without `--no-` forms, without flags that are false."""
    for name, value in settings.items():
        yield from () if value is False else _words(name, value)


def _words(name: str, value: JsonValue) -> Iterator[str]:
    """Yield a flag and its value as one word, so that no value becomes a flag and none is taken from the next word.

    Tables are JSON, and so are values of a part of a table, which a dot leads to. A list has a word for each
    item, the form for options with several values.
    """
    flag = f"--{name}"
    if "." in name:
        yield f"{flag}={value if isinstance(value, str) else json.dumps(value)}"
    elif value is True:
        yield flag
    elif isinstance(value, list):
        yield from (flag, *(_item(name, item) for item in value)) if value else ()
    else:
        yield f"{flag}={_text(value)}"


def _item(name: str, item: JsonValue) -> str:
    """Return an item as text. Raises UserError for text that would be a flag of its own."""
    if (text := _text(item)).startswith("-"):
        raise UserError(f"{name} has {text!r} in its list: what begins with - would be read as a flag")
    return text


def _text(value: JsonValue) -> str:
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)


def config_file(folder: Path, config: Settings) -> Path:
    """Write the settings to CONFIG_FILE in the folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CONFIG_FILE
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path.absolute()
