"""The policy of a lab: what a study may set, where its models, datasets and servers may be, and how long it may run.

A study becomes a command line, an environment, file names and addresses on the worker. So whatever may be set is
listed: in `allowed.toml` for every lab, in `policy.toml` under the home for this one. It is asked at submission, and
again before an engine starts: a row that came into the job table in another way must not pass either.
"""

from __future__ import annotations

import fnmatch
import functools
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, ValidationError

from jobs.datasets.registry import dataset_path
from jobs.engines.flags import dashed
from jobs.engines.models import REFERENCE_MODELS, local_folder
from jobs.engines.profiles import read_profiles
from lab.access import Role
from lab.errors import SettingsError
from lab.study import Arm, Frozen, Study
from warehouse.settings import Settings

Problem = tuple[str, str]
POLICY_FILE = "policy.toml"
#: Lets an engine run Python that comes with a model.
REMOTE_CODE = "trust-remote-code"
_ALLOWED = Path(__file__).with_name("allowed.toml")
#: The name of the table for engines of every kind.
_ANY = "any"
#: How variables end that name a place; a * in the list of every lab does not stand for these.
_OF_PLACES = ("_DIR", "_FILE", "_FOLDER", "_PATH", "_ROOT")


class EngineRules(Frozen):
    """What studies may set of one kind of engine; in `environment`, * stands for any text."""

    flags: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of speculation


class Policy(Frozen):
    """`policy.toml`. Places that are None may be any where one person uses the lab, and none where people log in."""

    engines: dict[str, EngineRules] = Field(default_factory=dict)  # by kind, beyond `allowed.toml`
    remote_code: tuple[Role, ...] = ()  # who may submit a study that runs Python of a model
    model_folders: tuple[Path, ...] | None = None
    dataset_folders: tuple[Path, ...] | None = None
    endpoint_hosts: tuple[str, ...] | None = None  # names, addresses or patterns like *.lab.example
    most_runs: int | None = Field(default=None, ge=1)
    most_hours: float | None = Field(default=None, gt=0)  # by the estimate


def load_policy(settings: Settings) -> Policy:
    """Raises SettingsError for a file that cannot be used: with a broken policy nothing is submitted or started."""
    path = policy_file(settings)
    try:
        policy = Policy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        policy = Policy()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path.absolute()} cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{path.absolute()}: {where}: {first['msg']}, got {first['input']!r}") from None
    if settings.web_login in ("none", "token"):
        return policy
    places = ("model_folders", "dataset_folders", "endpoint_hosts")
    return policy.model_copy(update={name: () for name in places if getattr(policy, name) is None})


def policy_file(settings: Settings) -> Path:
    return settings.policy_file or settings.home / POLICY_FILE


def place_problems(settings: Settings, study: Study) -> list[Problem]:
    """Return the models, datasets and servers that the study may not name, whether they are there or not."""
    asked = _Asked(settings, load_policy(settings), None)
    return [problem for place in (*_study_places(asked, study), *_arm_places(asked, study)) for problem in place]


def setting_problems(settings: Settings, study: Study, role: Role) -> list[Problem]:
    """Return what somebody of this role may not set in a study, and how it is longer than it may be."""
    asked = _Asked(settings, load_policy(settings), role)
    problems = list(_size_problems(asked, study))
    for kind in dict.fromkeys(asked.kinds.get(arm.engine) for arm in study.arms):
        problems += asked.flags(kind, "engine_flags", study.engine_flags)
    for index, arm in enumerate(study.arms):
        problems += asked.arm(f"arms[{index}]", arm)
    return problems


def launch_problems(settings: Settings, study: Study, arm: Arm) -> list[Problem]:
    """Return what an arm of a study in the queue may not have, whoever submitted it: see `author_problems`."""
    policy = load_policy(settings)
    asked = _Asked(settings, policy, next(iter(policy.remote_code), None))
    one = study.model_copy(update={"arms": (arm,)})
    return [
        *(problem for place in (*_study_places(asked, one), *_arm_places(asked, one)) for problem in place),
        *asked.flags(asked.kinds.get(arm.engine), "engine_flags", study.engine_flags),
        *asked.arm("arms[0]", arm),
    ]


def author_problems(settings: Settings, study: Study, arm: Arm, role: Role | None) -> list[Problem]:
    """Return what the study's author, who has this role now, may not have in it any more: code that comes with a model.

    None: the author may not sign in.
    """
    asked = _Asked(settings, load_policy(settings), role)
    kind = asked.kinds.get(arm.engine)
    flags: dict[str, Iterable[str]] = {"engine_flags": study.engine_flags, "arms[0].flags": arm.flags}
    flags["arms[0].config"] = _dotted(arm.config)
    named = ((field, {flag: True for flag in of if _is_remote_code(flag)}) for field, of in flags.items())
    return [problem for field, of in named for problem in asked.flags(kind, field, of)]


def _is_remote_code(flag: str) -> bool:
    return _plain(flag).removeprefix("no-") == REMOTE_CODE


@dataclass(frozen=True)
class _Asked:
    """A policy, and for whom it is asked."""

    settings: Settings
    policy: Policy
    role: Role | None

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each engine of this host by its name. What is measured elsewhere is judged there."""
        return {name: profile.kind for name, profile in read_profiles(self.settings.engines_file).items()}

    def arm(self, field: str, arm: Arm) -> Iterator[Problem]:
        kind = self.kinds.get(arm.engine)
        if arm.server is not None:
            return
        yield from self.flags(kind, f"{field}.flags", arm.flags)
        yield from self.flags(kind, f"{field}.config", _dotted(arm.config))
        for name, value in arm.environment.items():
            if (wrong := self.unlisted(kind, "environment", (name,), value)) is not None:
                where = f"{field}.environment.{name}"
                yield where, self.refused(f"the variable {name}{wrong}", "environment", name, kind)
        options = {} if arm.speculation is None else arm.speculation.options
        for name, option in options.items():
            if (wrong := self.unlisted(kind, "options", (name,), option)) is not None:
                where = f"{field}.speculation.options.{name}"
                yield where, self.refused(f"the option {name}{wrong}", "options", name, kind)

    def flags(self, kind: str | None, field: str, flags: Mapping[str, JsonValue]) -> Iterator[Problem]:
        if kind is None:
            return
        for flag, value in flags.items():
            name = _plain(flag)
            if _is_remote_code(flag):
                if self.role not in self.policy.remote_code:
                    who = str(self.role or Role.ADMINISTRATOR)
                    yield f"{field}.{flag}", self.refused("Python that comes with a model", "remote_code", who)
                continue
            spellings = (name, name.removeprefix("no-"), name.partition(".")[0])
            if (wrong := self.unlisted(kind, "flags", spellings, value)) is not None:
                yield f"{field}.{flag}", self.refused(f"--{name}{wrong}", "flags", name, kind)

    def unlisted(self, kind: str | None, of: str, spellings: Iterable[str], value: JsonValue) -> str | None:
        """Return what to say of a setting that is not allowed; None if it is.

        This lab's own list is about names alone. What every lab allows are switches, which name no file.
        """
        own, every = (self.rules(table, kind, of) for table in (self.policy, _allowed()))
        if _matches(own, spellings):
            return None
        if not _matches(every, spellings) or any(name.endswith(_OF_PLACES) for name in spellings):
            return ""
        return " with a path" if _names_a_path(value) else None

    @staticmethod
    def rules(of_whom: Policy, kind: str | None, of: str) -> set[str]:
        table = of_whom.engines
        listed = {name for key in (kind, _ANY) if key in table for name in getattr(table[key], of)}
        return set(map(_plain, listed)) if of == "flags" else listed

    def refused(self, what: str, key: str, value: str, kind: str | None = None) -> str:
        """Say what an administrator would write where: a new line, or one more value in the one that is there."""
        path = policy_file(self.settings).absolute()
        table = self.policy if kind is None else self.policy.engines.get(kind)
        is_there = bool(getattr(table, key, None))
        line = f'by adding "{value}" to {key}' if is_there else f'with the line {key} = ["{value}"]'
        where = f" below [engines.{kind}] in {path}" if kind else f" {'' if is_there else 'at the top '}of {path}"
        return f"this lab's policy does not let a study use {what}: an administrator can allow it {line}{where}"


@functools.cache
def _allowed() -> Policy:
    return Policy.model_validate(tomllib.loads(_ALLOWED.read_text(encoding="utf-8")))


def _dotted(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A configuration by its keys; a table's are those of its parts, as flags write them."""
    by_key: dict[str, JsonValue] = {}
    for name, value in config.items():
        by_key |= {f"{name}.{part}": of for part, of in value.items()} if isinstance(value, dict) else {name: value}
    return by_key


def _matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _names_a_path(value: JsonValue) -> bool:
    """Whether text in it is a path or a name on a hub; text may be JSON again."""
    if isinstance(value, str):
        return "/" in value or value.startswith("~")
    if isinstance(value, dict):
        return any(map(_names_a_path, (*value, *value.values())))
    return isinstance(value, list) and any(map(_names_a_path, value))


def _plain(flag: str) -> str:
    """`max_model_len` and `max-model-len` are one; behind a dot it is a name of Python's."""
    whole, dot, rest = flag.partition(".")
    return dashed(whole) + dot + rest.replace("-", "_")


def _study_places(asked: _Asked, study: Study) -> Iterator[Iterator[Problem]]:
    yield _model_problems(asked, "target", study.target)
    for index, workload in enumerate(study.workloads):
        yield _dataset_problems(asked, f"workloads[{index}]", workload.dataset)


def _arm_places(asked: _Asked, study: Study) -> Iterator[Iterator[Problem]]:
    for index, arm in enumerate(study.arms):
        if arm.server is not None:
            yield _host_problems(asked, f"arms[{index}].server.base_url", arm.server.base_url)
        if arm.speculation is not None and arm.speculation.model is not None:
            yield _model_problems(asked, f"arms[{index}].speculation.model", arm.speculation.model)


def _model_problems(asked: _Asked, field: str, name: str) -> Iterator[Problem]:
    if name.startswith("-"):
        yield field, f"{name!r} is not a model: a name that begins with - would be read as a flag"
        return
    folder, folders = local_folder(asked.settings.models_dir, name), asked.policy.model_folders
    if name in REFERENCE_MODELS or folder is None or folders is None:
        return
    if not _is_within(folder, (asked.settings.models_dir, *folders)):
        yield field, asked.refused("a model in that folder", "model_folders", str(folder.parent))


def _dataset_problems(asked: _Asked, field: str, name: str) -> Iterator[Problem]:
    path, folders = dataset_path(name), asked.policy.dataset_folders
    if path is None or folders is None or _is_within(path, folders):
        return
    line = asked.refused("a dataset by its path", "dataset_folders", str(path.parent))
    yield field, f"{line}; or register it and use its name"


def _is_within(path: Path, folders: Iterable[Path]) -> bool:
    """Whether the path, with every link followed, lies in one of the folders."""
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def _host_problems(asked: _Asked, field: str, base_url: str) -> Iterator[Problem]:
    host, hosts = (urlsplit(base_url).hostname or "").rstrip("."), asked.policy.endpoint_hosts
    if hosts is None or any(fnmatch.fnmatchcase(host, pattern.lower()) for pattern in hosts):
        return
    yield field, asked.refused(f"a server at {host}", "endpoint_hosts", host)


def _size_problems(asked: _Asked, study: Study) -> Iterator[Problem]:
    policy, path = asked.policy, policy_file(asked.settings).absolute()
    if policy.most_runs is not None and study.most_runs > policy.most_runs:
        takes, line = f"may take {study.most_runs:,} runs", f"most_runs = {study.most_runs}"
        yield "repeats", _too_long(takes, f"{policy.most_runs:,}", line, path)
    if policy.most_hours is not None:
        from jobs.forecast import forecast_study  # noqa: PLC0415 - reads the warehouse: only where hours are limited

        hours = forecast_study(asked.settings, study).seconds / 3600
        if hours > policy.most_hours:
            line = f"most_hours = {math.ceil(hours)}"
            yield "repeats", _too_long(f"takes about {hours:.3g} hours", f"{policy.most_hours:g}", line, path)


def _too_long(takes: str, most: str, line: str, path: Path) -> str:
    return (
        f"this study {takes}, and this lab's policy allows {most}: split it; or an administrator can allow it with the "
        f"line {line} at the top of {path}"
    )
