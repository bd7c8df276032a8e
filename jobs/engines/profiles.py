"""engines.toml: which engines this host has, and how each is started.

[vllm]
kind = "vllm"                                   # whose command line and log it speaks
command = ["{engines}/vllm/bin/vllm", "serve"]  # {engines} is the setting engines_dir
version_command = [...]                         # prints the version last, where the engine does not tell it itself
[vllm.environment]                              # always set
[vllm.cpu_environment]                          # set as well where there is no NVIDIA GPU
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from lab.errors import SettingsError, UserError
from lab.study import Frozen
from warehouse.settings import Settings


class Profile(Frozen):
    """One engine of this host. Text in {braces} is filled in: see `jobs.engines.environment`."""

    kind: Literal["vllm", "sglang", "tensorrt_llm", "transformers", "endpoint"]
    command: tuple[str, ...] = Field(default=(), validate_default=True)
    version_command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    cpu_environment: dict[str, str] = Field(default_factory=dict)

    @field_validator("command")
    @classmethod
    def _is_there(cls, command: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not command and info.data.get("kind") not in (None, "endpoint"):
            raise ValueError("an engine needs the command that starts it")
        return command

    def program(self, settings: Settings) -> Path | None:
        """The engine's executable, or None when it is not installed."""
        if not self.command:
            return None
        found = shutil.which(self.command[0].format(engines=settings.engines_dir.absolute()))
        return None if found is None else Path(found)


#: Servers that run already need no table.
ENDPOINT = "endpoint"
_BUILT_IN = {ENDPOINT: Profile(kind="endpoint")}


def read_profiles(settings: Settings) -> dict[str, Profile]:
    """Every engine of this host by name. Raises SettingsError for a file that cannot be used."""
    path = settings.engines_file
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"{path.absolute()} is not there: run from Drafthouse's folder, or set DRAFTHOUSE_ENGINES_FILE"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path.absolute()} cannot be read: {error}") from None
    return _BUILT_IN | {name: _profile(path, name, table) for name, table in tables.items()}


def _profile(path: Path, name: str, table: object) -> Profile:
    try:
        return Profile.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (name, *first["loc"])))
        raise SettingsError(f"{path.absolute()}: {where}: {first['msg']}, got {first['input']!r}") from None


def installed_profile(settings: Settings, engine: str) -> Profile:
    """The profile of an engine that can be started here. Raises UserError saying what is there instead."""
    profiles = read_profiles(settings)
    if engine not in profiles:
        raise UserError(
            f"there is no engine {engine!r} here: {settings.engines_file} has {', '.join(sorted(profiles)) or 'none'}"
        )
    if profiles[engine].command and profiles[engine].program(settings) is None:
        program = profiles[engine].command[0]
        make = "run `make engine-vllm`" if program.startswith("{engines}/vllm/") else "install it"
        raise UserError(
            f"the engine {engine!r} is not installed ({program.format(engines=settings.engines_dir)} is not there): "
            f"{make}, or mend its command in {settings.engines_file}"
        )
    return profiles[engine]
