"""What of an arm is written as text: flags in TOML, the engine's own configuration in YAML, variables as NAME=value.
Pure; each text reads back as what it was written from.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import tomli_w
import yaml


class UnreadableError(Exception):
    """A text that is not what its field holds; its own text is a sentence that says how to write it."""


def flags_text(flags: Mapping[str, Any]) -> str:
    """One `max-num-seqs = 8` a line."""
    return tomli_w.dumps(flags).strip()


def read_flags(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(
            f'this is no TOML ({error}): write one a line, like max-num-seqs = 8 or dtype = "float32"'
        ) from None


def config_text(config: Mapping[str, Any]) -> str:
    """YAML, as engines read it; nothing for an empty configuration."""
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).strip("\n") if config else ""


def read_config(text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnreadableError(f"this is no YAML: {' '.join(str(error).split())}") from None
    if config is None:
        return {}
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in config):
        raise UnreadableError("this is YAML without keys: write one a line, like kv-cache-dtype: fp8")
    return config


def environment_text(environment: Mapping[str, str]) -> str:
    """One NAME=value a line; a value that a line cannot hold as it is stands in quotes, as JSON writes it."""
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
        raise UnreadableError(f"line {number} is no variable: write NAME=value, one a line")
    try:
        quoted = json.loads(value) if value.startswith('"') else value
    except json.JSONDecodeError as error:
        raise UnreadableError(f"line {number}: the value begins with a quote and is no JSON text ({error})") from None
    return name.strip(), quoted


#: How the text of a column is read; what is not here is flags.
READERS: dict[str, Callable[[str], dict[str, Any]]] = {"config": read_config, "environment": read_environment}
