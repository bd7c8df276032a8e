"""A lab's policy: what a study may set, where its models, datasets and servers may be, and how long it may run.

A study becomes a command line, an environment, file names and addresses on the worker. So whatever may be set is
listed: in `allowed.toml` for every lab, in `policy.toml` under the home for this one. It is checked at submission, and
again before an engine starts: a row that came into the job table in another way must not pass either.
"""

from __future__ import annotations

import fnmatch
import functools
import ipaddress
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, ValidationError, field_validator

from host.settings import Settings
from jobs.datasets.registry import dataset_path
from jobs.engines.flags import dashed
from jobs.engines.kinds import ENDPOINT, KINDS
from jobs.engines.models import HUB_NAME, REFERENCE_MODELS, expanded, local_folder
from lab.errors import SettingsError
from lab.roles import Role
from lab.study import Arm, Frozen, Study
from lab.study.methods import METHODS

Problem = tuple[str, str]
POLICY_FILE = "policy.toml"
#: Lets an engine run Python that comes with a model.
REMOTE_CODE = "trust-remote-code"
_ALLOWED = Path(__file__).with_name("allowed.toml")
#: The name of the table for engines of every kind.
_ANY = "any"
#: Suffixes of variables that name a path; a * in the common list does not cover these.
_OF_PATHS = ("_DIR", "_FILE", "_FOLDER", "_PATH", "_ROOT")
#: The values of commonly allowed settings: a word, or numbers as in a tree of drafted tokens.
_WORD = re.compile(r"[A-Za-z0-9_.:+][A-Za-z0-9_.:+,|-]*|[0-9(\[][0-9()\[\], .-]*")
#: The values of commonly allowed variables; no program takes one for a flag.
_VALUE_OF_VARIABLE = re.compile(r"[A-Za-z0-9_.:+,|;=^()\[\] -]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"[A-Za-z0-9_-]+")


class EngineRules(Frozen):
    """What studies may set for one kind of engine; * matches any text. A flag covers its parts, too."""

    flags: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of speculation
    methods: tuple[str, ...] = ()  # of speculation, beyond ours


class Policy(Frozen):
    """`policy.toml`. Locations left None are all allowed in a lab of one person, and none in a lab with a login."""

    engines: dict[str, EngineRules] = Field(default_factory=dict)  # by kind, beyond `allowed.toml`
    remote_code: tuple[Role, ...] = ()  # who may submit a study that runs a model's own Python
    model_folders: tuple[Path, ...] | None = None
    dataset_folders: tuple[Path, ...] | None = None
    endpoint_hosts: tuple[str, ...] | None = None  # names, addresses, *.lab.example, 10.0.0.0/24; * for any
    most_runs: int | None = Field(default=None, ge=1)
    most_hours: float | None = Field(default=None, gt=0)  # by the estimate

    @field_validator("endpoint_hosts")
    @classmethod
    def _networks(cls, hosts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for host in hosts or ():
            if "/" in host:
                ipaddress.ip_network(host, strict=False)
        return hosts


def load_policy(settings: Settings) -> Policy:
    """Read policy.toml. Raises SettingsError for an unusable file: then nothing is submitted or started."""
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
    locations = ("model_folders", "dataset_folders", "endpoint_hosts")
    return policy.model_copy(update={name: () for name in locations if getattr(policy, name) is None})


def policy_file(settings: Settings) -> Path:
    return settings.policy_file or settings.home / POLICY_FILE


def location_problems(rules: Rules, study: Study) -> list[Problem]:
    """Return the models, datasets and servers that the study may not name, whether they exist or not."""
    return [*_study_location_problems(rules, study), *_arm_location_problems(rules, study)]


def setting_problems(rules: Rules, study: Study, role: Role | None) -> list[Problem]:
    """Return the settings that this role may not use in a study, and the excess over the time limit."""
    problems = list(_size_problems(rules, study))
    for kind in dict.fromkeys(rules.kind(arm.engine) for arm in study.arms):
        problems += rules.flags(kind, "engine_flags", study.engine_flags, role)
    for index, arm in enumerate(study.arms):
        problems += rules.arm(f"arms[{index}]", arm, role)
    return problems


def launch_problems(rules: Rules, study: Study, arm: Arm) -> list[Problem]:
    """Return the problems of a queued study's arm, whoever submitted it; see `author_problems` for the rest."""
    role = next(iter(rules.policy.remote_code), None)
    one = study.model_copy(update={"arms": (arm,)})
    shared = rules.flags(rules.kind(arm.engine), "engine_flags", study.engine_flags, role)
    return [*location_problems(rules, one), *shared, *rules.arm("arms[0]", arm, role)]


def author_problems(rules: Rules, study: Study, arm: Arm, role: Role | None) -> list[Problem]:
    """Return what the author's present role no longer allows in the study: code that comes with a model.

    None: the author may not sign in.
    """
    kind = rules.kind(arm.engine)
    flags: dict[str, Iterable[str]] = {"engine_flags": study.engine_flags, "arms[0].flags": arm.flags}
    flags["arms[0].config"] = arm.config
    named = ((field, {flag: True for flag in of if _is_remote_code(flag)}) for field, of in flags.items())
    return [problem for field, of in named for problem in rules.flags(kind, field, of, role)]


def _is_remote_code(flag: str) -> bool:
    """Return whether the flag is, or abbreviates, the one that lets an engine run a model's own Python."""
    name = _plain(flag).partition(".")[0].lower().removeprefix("no-")
    return name.startswith("tru") and REMOTE_CODE.startswith(name)


@dataclass(frozen=True)
class Rules:
    """A lab's policy with what is needed to judge a study by it."""

    policy: Policy
    file: Path  # that an administrator would edit
    models_dir: Path
    kind_of: Callable[[str], str | None]  # the kind of an engine by its name; None: nobody has it
    hours_of: Callable[[Study], float]

    def kind(self, engine: str) -> str | None:
        """Return the kind of an engine, or else the kind of the same name. None: only settings common to all kinds are
        allowed.
        """
        return self.kind_of(engine) or (engine if engine in KINDS else None)

    def may_be_folder(self, name: str) -> bool:
        """Return whether a model's name may be a folder below the current one: otherwise none is searched."""
        folders = self.policy.model_folders
        return folders is None or _is_within(expanded(name).absolute(), (self.models_dir, *folders))

    def arm(self, field: str, arm: Arm, role: Role | None) -> Iterator[Problem]:
        """Judge an arm's settings, whether its engine is known or not; for a running server nothing is started."""
        kind = self.kind(arm.engine)
        if kind == ENDPOINT:
            return
        if arm.server is not None:
            yield f"{field}.server", f'to measure a running server use engine = "{ENDPOINT}", not {arm.engine!r}'
        yield from self.flags(kind, f"{field}.flags", arm.flags, role)
        yield from self.flags(kind, f"{field}.config", arm.config, role)
        for name, value in arm.environment.items():
            yield from self.setting(kind, "environment", f"{field}.environment.{name}", name, value)
        if (speculation := arm.speculation) is None:
            return
        if speculation.method not in (*METHODS, *self.rules(self.policy, kind, "methods")):
            what = f"the method {speculation.method}"
            yield f"{field}.speculation.method", self.refused(what, "methods", speculation.method, kind or _ANY)
        for name, option in speculation.options.items():
            yield from self.setting(kind, "options", f"{field}.speculation.options.{name}", name, option)

    def flags(
        self, kind: str | None, field: str, flags: Mapping[str, JsonValue], role: Role | None
    ) -> Iterator[Problem]:
        """Judge flags, or a configuration, whose tables count like flags for their parts."""
        if kind == ENDPOINT:
            return
        for flag, given in flags.items():
            if _is_remote_code(flag):
                if role not in self.policy.remote_code:
                    who = str(role or Role.ADMINISTRATOR)
                    yield f"{field}.{flag}", self.refused("Python that comes with a model", "remote_code", who)
                elif not isinstance(given, bool):
                    yield f"{field}.{flag}", f"must be true or false, got {given!r}"
                continue
            plain = _plain(flag)
            for name, value in _leaves(plain, given):
                inside = name.removeprefix(plain) if isinstance(given, dict) else ""
                yield from self.setting(kind, "flags", f"{field}.{flag}{inside}", name, value)

    def setting(self, kind: str | None, of: str, field: str, name: str, value: JsonValue) -> Iterator[Problem]:
        """Judge one setting of the list `of`."""
        as_flag = next((text for text in _texts(value) if text.lstrip().startswith("-")), None)
        if of != "environment" and as_flag is not None:
            yield field, f"{as_flag!r} begins with -, so an engine could read it as a flag of its own"
        elif of == "environment" and (_VARIABLE.fullmatch(name) is None or "\0" in str(value)):
            yield field, f"{name!r} is not a valid environment variable"
        elif (unlisted := self.unlisted(kind, of, name, value)) is not None:
            called = {"flags": f"--{name}", "environment": f"the variable {name}", "options": f"the option {name}"}[of]
            yield field, self.refused(called + unlisted, of, name, kind or _ANY)

    def unlisted(self, kind: str | None, of: str, name: str, value: JsonValue) -> str | None:
        """Return the problem with a setting that is not allowed; None if it is allowed.

        This lab's own list restricts names alone. The common list allows only switches, numbers and words as values.
        """
        spellings = _spellings(name) if of == "flags" else (name,)
        own, every = (self.rules(table, kind, of) for table in (self.policy, _allowed()))
        if _matches(own, spellings):
            return None
        is_written_plainly = all(map(_PART.fullmatch, name.split(".")))
        if not (_matches(every, spellings) and is_written_plainly) or name.endswith(_OF_PATHS):
            return ""
        if any("/" in text or text.startswith("~") for text in _texts(value)):
            return " with a path"
        allowed = _VALUE_OF_VARIABLE if of == "environment" else _WORD
        is_plain = all(allowed.fullmatch(text) for text in _texts(value))
        return None if is_plain else " with text that is more than a word"

    @staticmethod
    def rules(of_whom: Policy, kind: str | None, of: str) -> set[str]:
        table = of_whom.engines
        listed = {name for key in (kind, _ANY) if key in table for name in getattr(table[key], of)}
        return set(map(_plain, listed)) if of == "flags" else listed

    def refused(self, what: str, key: str, value: str, kind: str | None = None) -> str:
        """Return the refusal, with the line that an administrator would add or extend, and in which file."""
        path = self.file.absolute()
        table = self.policy if kind is None else self.policy.engines.get(kind)
        is_there = bool(getattr(table, key, None))
        line = f'by adding "{value}" to {key}' if is_there else f'with the line {key} = ["{value}"]'
        where = f" below [engines.{kind}] in {path}" if kind else f" {'' if is_there else 'at the top '}of {path}"
        return f"this lab's policy does not let a study use {what}: an administrator can allow it {line}{where}"


@functools.cache
def _allowed() -> Policy:
    return Policy.model_validate(tomllib.loads(_ALLOWED.read_text(encoding="utf-8")))


def _leaves(name: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield each part of a setting by its dotted name, as flags write it; an empty table is a part, too."""
    value = _decoded(value)
    if isinstance(value, dict) and value:
        for part, inside in value.items():
            yield from _leaves(f"{name}.{part if _PART.fullmatch(part) else repr(part)}", inside)
    else:
        yield name, value


def _decoded(value: JsonValue) -> JsonValue:
    """Return text that holds a JSON table or list as the value that engines read; anything else unchanged.

    Text that parsers read differently (a duplicate key, NaN) stays text.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        decoded: JsonValue = json.loads(value, object_pairs_hook=_without_doubles, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return value
    return decoded


def _without_doubles(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    if len(table := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _no_number(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON")


def _spellings(flag: str) -> list[str]:
    """Return the names under which a list may have a flag: its own, its enclosing tables', and itself without `no-`."""
    parts = flag.split(".")
    names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [*names, *(name.removeprefix("no-") for name in names)]


def _matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield every text in a value, keys of tables and the contents of JSON text included."""
    value = _decoded(value)
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _plain(flag: str) -> str:
    """Write a flag in one spelling: dashes before the dot, underscores behind it, as Python names its parts."""
    whole, dot, rest = flag.partition(".")
    return dashed(whole) + dot + rest.replace("-", "_")


def _study_location_problems(rules: Rules, study: Study) -> Iterator[Problem]:
    is_started = any(rules.kind(arm.engine) != ENDPOINT for arm in study.arms)
    yield from _model_problems(rules, "target", study.target, is_started=is_started)
    for index, workload in enumerate(study.workloads):
        yield from _dataset_problems(rules, f"workloads[{index}]", workload.dataset)


def _arm_location_problems(rules: Rules, study: Study) -> Iterator[Problem]:
    for index, arm in enumerate(study.arms):
        if arm.server is not None:
            yield from _host_problems(rules, f"arms[{index}].server.base_url", arm.server.base_url)
            if arm.server.proxy is not None:
                yield from _host_problems(rules, f"arms[{index}].server.proxy", arm.server.proxy)
        if arm.speculation is not None and arm.speculation.model is not None:
            is_started = rules.kind(arm.engine) != ENDPOINT
            field = f"arms[{index}].speculation.model"
            yield from _model_problems(rules, field, arm.speculation.model, is_started=is_started)


def _model_problems(rules: Rules, field: str, name: str, *, is_started: bool) -> Iterator[Problem]:
    """Judge a model's name by its spelling alone; no folder is read. A running server may have any name for it."""
    if name.startswith("-"):
        yield field, f"{name!r} is not a model: a name that begins with - would be read as a flag"
        return
    folders = rules.policy.model_folders
    if name in REFERENCE_MODELS or folders is None or HUB_NAME.fullmatch(name):
        return
    folder = local_folder(rules.models_dir, name) or expanded(name).absolute()
    if not is_started and not name.startswith((".", "/", "~")):
        return
    if not _is_within(folder, (rules.models_dir, *folders)):
        yield field, rules.refused("a model in that folder", "model_folders", str(folder.parent))


def _dataset_problems(rules: Rules, field: str, name: str) -> Iterator[Problem]:
    path, folders = dataset_path(name), rules.policy.dataset_folders
    if path is None or folders is None or _is_within(path, folders):
        return
    line = rules.refused("a dataset by its path", "dataset_folders", str(path.parent))
    yield field, f"{line}; or register it and use its name"


def _is_within(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether the path, with all links resolved, lies in one of the folders."""
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def _host_problems(rules: Rules, field: str, base_url: str) -> Iterator[Problem]:
    hosts = rules.policy.endpoint_hosts
    if hosts is None:
        return
    try:
        host = (urlsplit(base_url).hostname or "").rstrip(".")
    except ValueError as error:
        yield field, f"{base_url!r} is not an address: {error}"
        return
    if not any(_is_host(host, pattern.lower()) for pattern in hosts):
        yield field, rules.refused(f"a server at {host}", "endpoint_hosts", host)


def _is_host(host: str, pattern: str) -> bool:
    """Return whether a pattern of policy.toml matches the host.

    `*` is any host, `*.lab.example` any name with this ending, 10.0.0.0/24 a network. Elsewhere * matches text without
    dots, or a number in the pattern of an address.
    """
    if pattern == "*":
        return True
    if re.fullmatch(r"[a-z0-9_.:-]+", host) is None:  # parsers may disagree where such a host ends
        return False
    address = _address(host)
    if "/" in pattern:
        return address is not None and address in ipaddress.ip_network(pattern, strict=False)
    if address is None and re.fullmatch(r"[0-9*.]+", pattern):
        return False
    whole = re.escape(pattern).replace(r"\*", "[^.]*")
    whole = ".+" + whole.removeprefix("[^.]*") if pattern.startswith("*.") else whole
    return re.fullmatch(whole, host) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _size_problems(rules: Rules, study: Study) -> Iterator[Problem]:
    policy, path = rules.policy, rules.file.absolute()
    if policy.most_runs is not None and study.most_runs > policy.most_runs:
        takes, line = f"may take {study.most_runs:,} runs", f"most_runs = {study.most_runs}"
        yield "repeats", _too_long(takes, f"{policy.most_runs:,}", line, path)
    if policy.most_hours is not None and (hours := rules.hours_of(study)) > policy.most_hours:
        line = f"most_hours = {math.ceil(hours)}"
        yield "repeats", _too_long(f"takes about {hours:.3g} hours", f"{policy.most_hours:g}", line, path)


def _too_long(takes: str, most: str, line: str, path: Path) -> str:
    return (
        f"this study {takes}, and this lab's policy allows {most}: split it; or an administrator can allow it with the "
        f"line {line} at the top of {path}"
    )
