"""The parts of an arm that are edited as text: flags (TOML), the engine's configuration file (YAML), environment
variables (NAME=value). Each text reads back as the value it was written from.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import tomli_w
import yaml


class UnreadableError(Exception):
    """A text that cannot be parsed; the message says how to write it."""


def flags_text(flags: Mapping[str, Any]) -> str:
    """One flag per line, like `max-num-seqs = 8`."""
    return tomli_w.dumps(flags).strip()


def read_flags(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(
            f'not valid TOML ({error}): write one flag per line, like max-num-seqs = 8 or dtype = "float32"'
        ) from None


def config_text(config: Mapping[str, Any]) -> str:
    """YAML, as engines read it; empty for an empty configuration."""
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).strip("\n") if config else ""


def read_config(text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text)
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
