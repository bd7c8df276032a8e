"""Reads engines.toml: which engines this host has, how each is started, and in which environment.

[vllm]
kind = "vllm"                                   # selects the command line, log format and metrics
command = ["{engines}/vllm/bin/vllm", "serve"]  # {engines} is the setting engines_dir
version_command = [...]                         # prints it at the end of a line, for an engine that does not report it
[vllm.environment]                              # always set
[vllm.cpu_environment]                          # also set on a host without an NVIDIA GPU
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from host.settings import ENGINES_FILE, SHIPPED, Settings
from jobs.engines.hardware import nvidia_gpus, processors
from jobs.engines.kinds import ENDPOINT, KINDS, vllm
from jobs.engines.models import local_folder
from lab.errors import INSTALL_COMMAND, HostError, SettingsError
from lab.study import Arm, Frozen, Study


class Profile(Frozen):
    """One engine of this host. `fill_in` replaces the {placeholders} in its texts."""

    kind: str
    command: tuple[str, ...] = Field(default=(), validate_default=True)
    version_command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    cpu_environment: dict[str, str] = Field(default_factory=dict)

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"must be one of {', '.join(KINDS)}")
        return kind

    @field_validator("command")
    @classmethod
    def _is_there(cls, command: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not command and (kind := info.data.get("kind")) is not None and KINDS[kind].is_started:
            raise ValueError("an engine needs the command that starts it")
        return command

    def program(self, engines_dir: Path) -> Path | None:
        """Return the engine's executable, or None if it is not installed."""
        if not self.command:
            return None
        path = shutil.which(self.command[0].format(engines=engines_dir.absolute()))
        return None if path is None else Path(path)


#: The name that `drafthouse install vllm 0.14.1` gives its engine.
_VERSION_OF_NAME = re.compile(r"vllm-(\d+(?:-\d+)+)")
_BUILT_IN = {ENDPOINT: Profile(kind=ENDPOINT)}


def read_profiles(path: Path) -> dict[str, Profile]:
    """Return every engine in an engines.toml by name. Raises SettingsError for a file that cannot be used."""
    try:
        tables = tomllib.loads(engines_text(path))
    except FileNotFoundError:
        raise SettingsError(f"{path.absolute()} does not exist: write it, or correct DRAFTHOUSE_ENGINES_FILE") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path.absolute()} cannot be read: {error}") from None
    return _BUILT_IN | {name: _profile(path, name, table) for name, table in tables.items()}


def engines_text(path: Path) -> str:
    """Return the text of an engines.toml. A folder without its own has that of Drafthouse."""
    shipped = path == ENGINES_FILE and not path.exists()
    return (SHIPPED / path if shipped else path).read_text(encoding="utf-8")


def _profile(path: Path, name: str, table: object) -> Profile:
    try:
        return Profile.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (name, *first["loc"])))
        raise SettingsError(f"{path.absolute()}: {where}: {first['msg']}, got {first['input']!r}") from None


def installed_profile(settings: Settings, engine: str) -> Profile:
    """Return the profile of an engine that can be started here. Raises HostError naming the engines that can."""
    return installed_of(settings, read_profiles(settings.engines_file), engine)


def installed_of(settings: Settings, profiles: Mapping[str, Profile], engine: str) -> Profile:
    """Return the profile of this name among these, as `installed_profile` does."""
    if engine not in profiles:
        has = f"{settings.engines_file} has {', '.join(sorted(profiles)) or 'none'}"
        version = _VERSION_OF_NAME.fullmatch(engine)
        install = f"; `{INSTALL_COMMAND} vllm {version[1].replace('-', '.')}` installs it" if version else ""
        raise HostError(f"there is no engine {engine!r} here: {has}{install}")
    if profiles[engine].command and profiles[engine].program(settings.engines_dir) is None:
        program = profiles[engine].command[0]
        make = f"run `{INSTALL_COMMAND}`" if program.startswith("{engines}/vllm/") else "install it"
        raise HostError(
            f"the engine {engine!r} is not installed ({program.format(engines=settings.engines_dir)} does not exist): "
            f"{make}, or correct its command in {settings.engines_file}"
        )
    return profiles[engine]


def installed_profiles(settings: Settings) -> dict[str, Profile]:
    """Return the profile of every engine that can be started here, by name. Raises SettingsError."""
    profiles = read_profiles(settings.engines_file)
    folder = settings.engines_dir
    return {name: it for name, it in profiles.items() if not it.command or it.program(folder) is not None}


def speculation_words(engines_file: Path, models_dir: Path, arm: Arm) -> str | None:
    """Return what an arm's speculation adds to its engine's command line, as a shell takes it.

    Empty without speculation; None for engines other than vLLM.
    """
    profile = read_profiles(engines_file).get(arm.engine)
    if profile is None or profile.kind != "vllm":
        return None
    if arm.speculation is None:
        return ""
    return shlex.join(("--speculative-config", json.dumps(vllm.speculative_config(models_dir, arm.speculation))))


_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(?:API_?|ACCESS_?|PRIVATE_?)KEY)(?:_|$)|_PASS$",
    re.IGNORECASE,
)
#: A user's password inside an address: https://user:password@proxy
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s@]*:[^/\s]+@")
#: The variable that marks every process of an engine started here.
MARK = "ENGINE_OF_DRAFTHOUSE"
#: The variable with the key of that engine, which is new at each start.
KEY = "ENGINE_KEY_OF_DRAFTHOUSE"
HIDDEN = "(not stored)"
#: The worker's own variables that an engine gets: for paths, languages, proxies, and the libraries that it uses. Left
#: out: variables of our own Python, which would break another one, our settings, and other services' keys.
_FOR_ENGINES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_", "TZ", "TERM", "XDG_", "LD_LIBRARY_PATH"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "REQUESTS_CA_BUNDLE"),
    *("SSL_CERT_", "DOCKER_", "CUDA", "NVIDIA_", "NCCL_", "HIP_", "ROCM_", "ROCR_", "OMP_", "GOMP_", "KMP_", "MKL_"),
    *("MALLOC_", "TORCH", "PYTORCH_", "TRITON_", "HF_", "HUGGING", "TRANSFORMERS_", "VLLM_", "SGLANG_", "TLLM_"),
    *("TRTLLM_", "OPAL_", "OMPI_", "UCX_"),
)


def profile_environment(settings: Settings, profile: Profile, study: Study, arm: Arm) -> dict[str, str]:
    """Return the profile's variables on this host, overridden by the arm's; `without_secrets` makes them storable."""
    here = profile_environment_here(settings, profile)
    return here | ({"HF_HUB_OFFLINE": "1"} if _all_local(settings.models_dir, study, arm) else {}) | arm.environment


def profile_environment_here(settings: Settings, profile: Profile) -> dict[str, str]:
    """Return the profile's variables on this host, whatever is served, with placeholders filled in."""
    texts = profile.environment | ({} if nvidia_gpus() else profile.cpu_environment)
    return {name: fill_in(settings, text) for name, text in texts.items()}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment fit to be stored and shown: variables that are secret by name (HF_TOKEN), or hold an
    address with a password, lose their value.
    """
    return {name: HIDDEN if is_secret(name) or has_password(value) else value for name, value in environment.items()}


def is_secret(variable: str) -> bool:
    """Return whether an environment variable holds a secret, judging by its name."""
    return _SECRET.search(variable) is not None


def has_password(text: str) -> bool:
    """Return whether the text has an address with a password in it, as a proxy's or a database's may."""
    return _PASSWORD_IN_ADDRESS.search(text) is not None


def whole_environment(
    engines_dir: Path, profile: Profile, own: Mapping[str, str], caches: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all variables of the engine's process; its own programs come first on the path (it compiles with some).

    `caches` are `jobs.engines.caches.cache_variables`, for a process that will be started.
    """
    inherited = {name: value for name, value in os.environ.items() if name.startswith(_FOR_ENGINES)}
    if program := profile.program(engines_dir):
        inherited["PATH"] = os.pathsep.join((str(program.parent), inherited.get("PATH", os.defpath)))
    return inherited | dict(caches or {}) | dict(own)


def fill_in(settings: Settings, text: str) -> str:
    """Replace the {placeholders} in a text of a profile. Raises SettingsError for an unknown one."""
    mine = processors()
    cores = mine[1:] or mine  # the measuring client keeps the first
    values = {
        "engines": str(settings.engines_dir.absolute()),
        "engine_cores": ",".join(map(str, cores)),
        "engine_threads": str(len(cores)),
        "home": str(settings.home.absolute()),
        "models": str(settings.models_dir.absolute()),
    }
    try:
        return text.format(**values)
    except (KeyError, IndexError, ValueError):
        placeholders = ", ".join(f"{{{name}}}" for name in values)
        raise SettingsError(
            f"{settings.engines_file}: {text!r} has an unknown placeholder; known are {placeholders}"
        ) from None


def command_argv(settings: Settings, profile: Profile, own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the profile's command with placeholders filled in, and its program's path made absolute.

    The word {pass_environment} becomes `-e NAME` for every variable of the engine, so that a container's client passes
    them on.
    """
    words: list[str] = []
    for word in profile.command:
        if word == "{pass_environment}":
            words += [part for name in (*sorted(own), MARK, KEY) for part in ("-e", name)]
        else:
            words.append(fill_in(settings, word))
    if "/" in words[0]:  # engines start in another folder
        words[0] = str(Path(words[0]).absolute())
    return tuple(words)


def _all_local(models_dir: Path, study: Study, arm: Arm) -> bool:
    """Return whether the engine needs no model hub, and so must not wait for one."""
    names = [study.target, arm.speculation.model if arm.speculation else None]
    return all(local_folder(models_dir, name) is not None for name in names if name is not None)
