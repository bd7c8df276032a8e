"""Checks of an arm against the capabilities of its engine, at submission."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from pydantic import JsonValue

from host.settings import ENVIRONMENT_PREFIX
from jobs.engines.capabilities import Capabilities
from jobs.engines.captures import numbers, refusal
from jobs.engines.flags import Flags, configured, dashed, merged
from jobs.engines.kind import Kind
from jobs.engines.kinds import KINDS
from jobs.engines.profiles import MARK, has_password, is_secret
from jobs.engines.relied_on import OLDEST, flags_of
from jobs.engines.speculation.checks import option_problems
from lab.study import Arm, Sampling, Server, Speculation, Study, Tune
from lab.study.methods import METHODS
from lab.study.tune import drafts
from lab.validity.words import listed

Problem = tuple[str, str]
#: Why a key is not sent; a worker checks it again.
KEY_IS_SHOWN = "without https the proxy could read the API key: write base_url with https, or remove proxy or api_key"
#: Headers that requests have anyway, in lower case.
_HEADERS_OF_REQUESTS = frozenset(
    ("host", "content-type", "content-length", "accept-encoding", "connection", "transfer-encoding", "cookie")
)
_FLAG = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN = 12
#: The pattern of a flag's value by its type, and what to call it.
_SHAPES = {
    "integer": (re.compile(r"[+-]?\d+"), "a whole number"),
    "number": (re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"), "a number"),
    "size": (re.compile(r"auto|[+-]?\d+(?:\.\d+)?[kKmMgGtT]?(?:i?[bB])?"), "a whole number like 8192 or 8k"),
}
#: The last release of vLLM whose build for CPUs, like those of 0.24, 0.28 and 0.31, was seen to lose temperatures above
#: 0 with speculation: its kernel was called, and its answers sampled.
_LOSES_TEMPERATURE = "0.32.0"
#: Settings that only an engine that we start can be given.
_OF_STARTED = {
    "flags": "engine flags do",
    "config": "the lines of a configuration file do",
    "environment": "environment variables do",
}
#: Flags that say which share of a GPU's memory an engine takes: of vLLM and SGLang.
MEMORY_FLAGS = ("gpu-memory-utilization", "mem-fraction-static")
_INSTEAD = 'or use order = "interleaved", which has one engine up at a time'


def study_problems(study: Study, arm: Arm, field: str, has: Capabilities) -> list[Problem]:
    """Return every problem that an engine has with an arm (at `field` of its study) and the study's settings for it."""
    is_started = KINDS[has.kind].is_started
    shared = study.engine_flags if is_started else {}
    is_tuned = study.tune is not None and arm.name in {draft.arm.name for draft in drafts(study.arms, study.tune)}
    nobodys = (
        not is_started
        and study.engine_flags
        and all(other.server is not None or other.engine == arm.engine for other in study.arms)
    )
    return [
        *([("engine_flags", f"{_OF_STARTED['flags']} not apply to a running server: clear them")] if nobodys else ()),
        *flag_problems("engine_flags", shared, has),
        *arm_problems(field, arm, shared, has),
        *sampling_problems(field, arm, study.sampling, has),
        *(tuning_problems(study.tune, has) if study.tune is not None and is_tuned else ()),
        *_memory_problems(study, arm, has),
    ]


def _memory_problems(study: Study, arm: Arm, has: Capabilities) -> Iterator[Problem]:
    """Yield a problem if the engine's kind makes a draft remember: the study's plan cannot tell by the method."""
    kind = KINDS[has.kind]
    if arm.speculation is None or study.fresh_starts != "as_declared" or study.starts_each_cell(arm):
        return
    if arm.server is None and kind.remembers is not None and kind.remembers(arm.speculation):
        without = f"; or set {kind.forgets} in its options" if kind.forgets else ""
        problem = (
            f"{arm.speculation.method} of {has.engine} keeps the answers of earlier requests, so later cells would "
            f'replay those of the cells before: set "every_cell" for an engine start each, or "never"{without}'
        )
        yield "fresh_starts", problem


def arm_problems(field: str, arm: Arm, engine_flags: Flags, has: Capabilities) -> Iterator[Problem]:
    """Yield every problem that an engine has with an arm (at `field` of its study); `engine_flags` are the whole
    study's.
    """
    kind = KINDS[has.kind]
    if not kind.is_started:
        yield from _endpoint_problems(field, arm)
        return
    if arm.server is not None:
        yield f"{field}.server", f'to measure a running server use engine = "endpoint", not {arm.engine!r}'
    yield from flag_problems(f"{field}.flags", arm.flags, has)
    yield from _config_problems(field, arm, engine_flags, has)
    yield from _environment_problems(f"{field}.environment", arm.environment)
    if arm.speculation is not None:
        yield from _speculation_problems(f"{field}.speculation", arm.speculation, has)
    yield from _gpu_problems(field, arm, engine_flags, has)


def sampling_problems(field: str, arm: Arm, sampling: Sampling, has: Capabilities) -> Iterator[Problem]:
    """Yield a problem if this engine samples wrong with speculation (docs/comparison.md, Distributions)."""
    build, is_vllm = has.version or "", has.kind == "vllm"
    loses = is_vllm and build.endswith("+cpu") and numbers(build) <= numbers(_LOSES_TEMPERATURE)
    if arm.speculation is not None and sampling.temperature > 0 and loses:
        problem = (
            f"{_called(has)} loses the temperature of drafted tokens and accepts too many of them: set "
            f"sampling.temperature = 0 instead of {sampling.temperature:g}, or measure with a build for GPUs"
        )
        yield f"{field}.speculation", problem


def tuning_problems(tune: Tune, has: Capabilities) -> Iterator[Problem]:
    """Yield the features that a tuning needs and this engine lacks."""
    kind = KINDS[has.kind]
    if not kind.is_started:
        yield "tune", "a running server drafts as it was started, so its number of tokens cannot be tuned"
    elif tune.schedule and not kind.takes_schedule:
        yield "tune.schedule", f"{_called(has)} has no schedule by the number of requests at once: set schedule = false"


def flag_problems(field: str, flags: Mapping[str, JsonValue], has: Capabilities) -> Iterator[Problem]:
    """Yield the flags that Drafthouse sets itself, malformed flags, and flags that this engine does not have."""
    kind = KINDS[has.kind]
    for flag, value in flags.items():
        name = dashed(flag)
        if own := own_flag(name, kind, is_known=has.flags is not None):
            yield f"{field}.{flag}", f"Drafthouse sets this itself: {kind.own_flags[own]}"
        elif not _FLAG.fullmatch(flag):
            yield f"{field}.{flag}", f"{flag!r} is not a flag: write it without leading dashes, like max_model_len"
        elif problem := _wrong_value(name, value, has) or _unknown_flag(name, value, has):
            yield f"{field}.{flag}", problem


def own_flag(name: str, kind: Kind, *, is_known: bool) -> str | None:
    """Return the flag set by Drafthouse of which this is another spelling; None if there is none.

    A dot leads to a part of a flag's value, and `no-` negates it. An engine whose flags are unknown may accept
    abbreviations.
    """
    whole = name.partition(".")[0].lower()
    spellings = (whole, whole.removeprefix("no-"))
    for own in kind.own_flags:
        if own in spellings or (not is_known and any(own.startswith(spelling) for spelling in spellings)):
            return own
    return None


def _unknown_flag(name: str, value: JsonValue, has: Capabilities) -> str | None:
    """Return the problem with a flag; None if the engine has it, or its flags are unknown. Of
    `compilation-config.mode` only the part before the dot is the engine's flag.
    """
    whole = name.partition(".")[0]
    if has.flags is None:
        return None
    if whole not in has.flags:
        close = difflib.get_close_matches(whole, has.flags, n=1)
        hint = f": did you mean {close[0].replace('-', '_')}?" if close else f"; it has {_some(has.flags)}"
        return f"{_called(has)} has no flag --{whole}{hint}"
    has_no_forms = any(flag.startswith("no-") for flag in has.flags)
    if value is False and has_no_forms and f"no-{whole}" not in has.flags:
        return f"{_called(has)} has no --no-{whole}: leave the flag out instead"
    return None


def _wrong_value(name: str, value: JsonValue, has: Capabilities) -> str | None:
    """Return why the engine's parser would refuse this value of a flag; None if it may accept it."""
    takes = (has.flag_types or {}).get(name)
    if takes is None or value in (None, "", "None"):  # vLLM treats these as not set
        return None
    if takes == "switch":
        return None if isinstance(value, bool) else f"is a switch: true or false, not {value!r}"
    if isinstance(value, bool):
        return f"takes a value, not {str(value).lower()}"
    if isinstance(takes, tuple):
        same = {choice.lower().replace("-", "_") for choice in takes}
        return None if str(value).lower().replace("-", "_") in same else f"is one of {_some(takes)}, not {value!r}"
    shape, example = _SHAPES.get(takes, (None, ""))
    if shape is None or (not isinstance(value, (list, dict)) and shape.fullmatch(str(value))):
        return None
    return f"is {example}, not {value!r}"


def _config_problems(field: str, arm: Arm, engine_flags: Flags, has: Capabilities) -> Iterator[Problem]:
    kind = KINDS[has.kind]
    if arm.config and not kind.takes_config:
        yield f"{field}.config", f"{_called(has)} reads no YAML file: use flags"
        return
    own = kind.config_own or kind.own_flags
    given = {dashed(name) for name in (*engine_flags, *arm.flags)}
    for key, value in arm.config.items():
        name = dashed(key)
        if name in own:
            yield f"{field}.config.{key}", f"Drafthouse sets this itself: {own[name]}"
        elif name in given:
            yield f"{field}.config.{key}", "a flag of the same name overrides it: keep one of the two"
        elif not kind.config_own and (problem := _wrong_value(name, value, has) or _unknown_flag(name, value, has)):
            yield f"{field}.config.{key}", problem


def _environment_problems(field: str, environment: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield f"{field}.{name}", f"{name!r} is not a valid environment variable"
        elif name.startswith(ENVIRONMENT_PREFIX) or name == MARK:
            yield f"{field}.{name}", "this variable belongs to Drafthouse: an engine does not see it"
        elif is_secret(name) or has_password(value):
            yield f"{field}.{name}", "a study is stored and shown: set secrets in the worker's engines.toml"


def _speculation_problems(field: str, speculation: Speculation, has: Capabilities) -> Iterator[Problem]:
    kind = KINDS[has.kind]
    if speculation.method not in has.methods:
        close = difflib.get_close_matches(speculation.method, has.methods, n=1, cutoff=0.75)
        hint = f" (did you mean {close[0]}?)" if close else ""
        yield f"{field}.method", f"{_called(has)} has no method {speculation.method!r}{hint}: it has {_methods(has)}"
        return
    if (why := refusal(has.kind, has.version, speculation.method)) is not None:
        yield (
            f"{field}.method",
            f"{_called(has)} lists {speculation.method!r}, but did not start with it when tried: {why}",
        )
        return
    for flag in (flag for flag, use in flags_of(kind.name).items() if use.needed and flag.startswith("speculative")):
        if has.flags is not None and flag not in has.flags:
            yield (
                field,
                f"{_called(has)} has no --{flag}, by which Drafthouse asks for it: use {OLDEST[kind.name]} or newer",
            )
    for bound in ("prompt_lookup_min", "prompt_lookup_max"):
        if getattr(speculation, bound) is not None and bound not in kind.lookup_bounds:
            instead = ": set its own option of this version instead, in options" if kind.options else ""
            yield f"{field}.{bound}", f"{_called(has)} has no such bound{instead}"
    if speculation.options and not kind.options:
        yield f"{field}.options", f"{_called(has)} has no further settings: remove {', '.join(speculation.options)}"
        return
    wrong = option_problems(kind, _called(has), speculation, has.speculation, has.version)
    yield from ((f"{field}.options.{name}", problem) for name, problem in wrong)


def _gpu_problems(field: str, arm: Arm, engine_flags: Flags, has: Capabilities) -> Iterator[Problem]:
    """Yield a problem if an arm needs more GPUs than there are. Without a GPU its engine is a single process."""
    given = {
        dashed(name): value for settings in (engine_flags, arm.config, arm.flags) for name, value in settings.items()
    }
    sizes = {
        name: size
        for names in KINDS[has.kind].gpu_flags
        for name in names
        if isinstance(size := given.get(name), int) and not isinstance(size, bool)
    }
    needed, present = math.prod(sizes.values()), len(has.gpus)
    if needed > max(present, 1):
        product = " x ".join(f"{name.replace('-', '_')} {size}" for name, size in sizes.items())
        host = f"the host has {present} ({', '.join(has.gpus)})" if has.gpus else "the host has none"
        yield f"{field}.flags", f"{product} needs {needed} GPUs, but {host}: use {max(present, 1)} at most"


def _endpoint_problems(field: str, arm: Arm) -> Iterator[Problem]:
    """Yield problems of an arm that measures a running server; `check_host` checks its address by the network."""
    if arm.server is None:
        yield f"{field}.server", "this arm measures a running server: set its base_url, like http://127.0.0.1:8000"
    elif (parts := urlsplit(arm.server.base_url)).query or parts.fragment:
        yield (
            f"{field}.server.base_url",
            "an address must not contain ? or #: to send a key, set api_key to the name of a secret",
        )
    elif parts.path.rstrip("/").endswith("/v1"):
        yield f"{field}.server.base_url", f"write it without /v1: {arm.server.base_url.rstrip('/')[:-3]}"
    if arm.server is not None:
        yield from _connection_problems(f"{field}.server", arm.server)
    for name, called in _OF_STARTED.items():
        if getattr(arm, name):
            yield f"{field}.{name}", f"{called} not apply to a running server: clear them"


def _connection_problems(field: str, server: Server) -> Iterator[Problem]:
    """Yield what contradicts itself in how a server is reached."""
    if server.ca_file is not None and urlsplit(server.base_url).scheme != "https":
        yield f"{field}.ca_file", "only https has certificates: remove it, or write the address with https"
    if server.shows_key:
        yield f"{field}.proxy", KEY_IS_SHOWN
    if server.api_key_header is None:
        return
    if server.api_key is None:
        yield f"{field}.api_key_header", "there is no key to send in it: set api_key to the name of a secret"
    if server.api_key_header.lower() in _HEADERS_OF_REQUESTS:
        has_it = f"every request has a header {server.api_key_header} already"
        yield f"{field}.api_key_header", f"{has_it}: name the one that the server reads the key from, or leave it out"


def _called(has: Capabilities) -> str:
    return " ".join(filter(None, (has.engine, has.version)))


def _methods(has: Capabilities) -> str:
    """Return the engine's methods as text, our own names first; an engine has dozens for particular models."""
    ours = [name for name in METHODS if name in has.methods]
    others = [name for name in has.methods if name not in METHODS]
    return _some([*ours, *others])


def _some(names: Iterable[str]) -> str:
    return listed(list(names), _SHOWN) or "none"


def side_by_side_problems(study: Study, *, has_gpu: bool) -> Iterator[Problem]:
    """Yield why side-by-side engines would not fit a GPU's memory. Without a GPU, the worker checks its host's memory.

    Arms that see different GPUs (CUDA_VISIBLE_DEVICES in their environment) do not share.
    """
    started = [arm for arm in study.arms if arm.server is None]
    if not has_gpu or len(started) < 2:
        return
    shares = {arm.name: _memory_share(study, arm) for arm in started}
    if unknown := [name for name, share in shares.items() if share is None]:
        sentence = (
            "engines that are up side by side on a GPU share its memory, so each has to be given a part of it: set "
            f"{' or '.join(MEMORY_FLAGS)} for {', '.join(map(repr, unknown))} (at most 1 in all), {_INSTEAD}"
        )
        yield "order", sentence
        return
    declared = {name: share for name, share in shares.items() if share is not None}
    for arms in _sharing(started):
        if (total := sum(declared[arm.name] for arm in arms)) > 1:
            names = ", ".join(f"{arm.name!r} {declared[arm.name]:g}" for arm in arms)
            sentence = (
                f"side by side, the engines would take {total:g} of the GPU's memory ({names}): lower the flags to at "
                f"most 1 in all, {_INSTEAD}"
            )
            yield "order", sentence
            return


def _memory_share(study: Study, arm: Arm) -> float | None:
    given = configured(arm) | merged(study, arm)
    share = next((given[name] for name in MEMORY_FLAGS if name in given), None)
    return float(share) if isinstance(share, (int, float)) and not isinstance(share, bool) else None


def _sharing(arms: Sequence[Arm]) -> Iterator[list[Arm]]:
    """Yield the arms on each GPU, as far as they name their GPUs; an arm that names none is on every GPU."""
    devices = {arm.name: _devices(arm) for arm in arms}
    every = sorted(set().union(*(visible for visible in devices.values() if visible is not None)))
    for device in every or [""]:
        yield [arm for arm in arms if (visible := devices[arm.name]) is None or device in visible]


def _devices(arm: Arm) -> set[str] | None:
    listed = arm.environment.get("CUDA_VISIBLE_DEVICES")
    return None if listed is None else {part.strip() for part in listed.split(",") if part.strip()}
