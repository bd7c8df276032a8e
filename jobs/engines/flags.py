"""A study's flags as words of a command line, and its settings as a YAML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from pydantic import JsonValue

from lab.study import Arm, FlagValue, Study

Flags = Mapping[str, FlagValue]
CONFIG_FILE = "config.yaml"


def dashed(name: str) -> str:
    """`max_model_len` and `max-model-len` are the same flag; a key of a flag's table stays, as in `config.a_key`."""
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key


def underscored(name: str) -> str:
    """The inverse, for programs whose options have underscores."""
    return name.replace("-", "_")


def merged(study: Study, arm: Arm) -> dict[str, FlagValue]:
    """Return the study's flags overridden by the arm's, in one spelling."""
    return {dashed(name): value for flags in (study.engine_flags, arm.flags) for name, value in flags.items()}


def negatable(flags: Flags) -> Iterator[str]:
    """For programs with `--no-` forms: true becomes `--enforce-eager`, false `--no-enforce-eager`."""
    for name, value in flags.items():
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        else:
            yield f"--{name}={value}"  # one word: a value that begins with a dash cannot become a flag


def switches(flags: Flags) -> Iterator[str]:
    """For programs without `--no-` forms: a flag that is false is left out."""
    for name, value in flags.items():
        if isinstance(value, bool):
            yield from (f"--{name}",) if value else ()
        else:
            yield f"--{name}={value}"


def config_file(folder: Path, config: Mapping[str, JsonValue]) -> Path:
    """Write the settings to CONFIG_FILE in the folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CONFIG_FILE
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path.absolute()
