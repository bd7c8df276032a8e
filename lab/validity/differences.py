"""Describe the differences between two compared runs. What is unknown for one of them is not compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lab.metrics.records import RunRecord

#: Parts of an effective configuration that always differ between arms, or that only concern observation.
NOT_COMPARED = re.compile(
    r"spec|draft|non_default_args|model_tag|served_model_name|\bport\b|_port\b|observability|log|metric|cache_dir|"
    r"debug_dump|random_seed|dist_init|nccl|watchdog",
    re.IGNORECASE,
)
#: `'key': value` or `key=value` inside a setting; enough to say which part of a long one differs.
_PART = re.compile(r"'?(?P<name>\w+)'?(?:: |=)(?P<value>\[[^\[\]]*\]|<[^<>]*>|[^,{}()]*)")
_SHOWN_CHARS = 40


def conditions(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Hardware, target, sampling, endpoint and prompts."""
    there, here = baseline.circumstances, other.circumstances
    theirs = {
        "hardware": (there.hardware, here.hardware),
        "GPUs": (_kinds(there.gpus), _kinds(here.gpus)),
        "target": (there.target_digest or there.target_revision, here.target_digest or here.target_revision),
        "sampling": (str(baseline.sampling), str(other.sampling)),
        "endpoint": (baseline.endpoint, other.endpoint),
        "seed": (baseline.prompts_seed, other.prompts_seed),
        "prompts": (_workload(baseline), _workload(other)),
    }
    yield from _differing(theirs)


def engines(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Engine, version and driver."""
    there, here = baseline.circumstances, other.circumstances
    yield from _differing(
        {
            "engine": (there.engine, here.engine),
            "version": (there.engine_version, here.engine_version),
            "driver": (there.driver_version, here.driver_version),
        }
    )


def changed_settings(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Effective configuration and environment, of one engine."""
    there, here = baseline.circumstances, other.circumstances
    if there.engine != here.engine:
        return
    for ours, theirs in ((there.effective_config, here.effective_config), (there.environment, here.environment)):
        if ours and theirs:
            yield from _settings(ours, theirs)


def _settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*ours, *theirs}):
        one, other = ours.get(name, "not set"), theirs.get(name, "not set")
        if one == other or NOT_COMPARED.search(name):
            continue
        inner = _parts(one), _parts(other)
        if all(inner):
            yield from (f"{name}.{part}" for part in _settings(*inner))
        else:
            yield f"{name} {_short(one)} -> {_short(other)}"


def _parts(value: str) -> Mapping[str, str]:
    """The settings within a setting; none where it has no braces."""
    return {match["name"]: match["value"].strip() for match in _PART.finditer(value)} if "{" in value else {}


def _differing(pairs: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    for name, (one, other) in pairs.items():
        if one != other and one not in (None, ()) and other not in (None, ()):
            yield f"{name} {_short(str(one))} -> {_short(str(other))}"


def _kinds(gpus: tuple[str, ...]) -> tuple[str, ...]:
    """The GPUs by model name; which device of a model it was does not matter."""
    return tuple(sorted(gpu.partition(" (")[0] for gpu in gpus))


def _workload(run: RunRecord) -> str | None:
    return None if run.identity is None else run.identity.workload_id


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN_CHARS else value[: _SHOWN_CHARS - 1] + "…"
