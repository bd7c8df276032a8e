"""Whether the engines of all arms of a study can be up side by side on one host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jobs.engines.checks import Problem
from lab.study import Arm, FlagValue, Study

#: Flags that say which share of a GPU's memory an engine takes: of vLLM and SGLang.
MEMORY_FLAGS = ("gpu-memory-utilization", "mem-fraction-static")
_INSTEAD = 'or use order = "interleaved", which has one engine up at a time'


def memory_problems(study: Study, *, has_gpu: bool) -> Iterator[Problem]:
    """Yield why engines up side by side would not fit the memory of a GPU. Without one, the worker looks at its host's.

    Arms that see different GPUs (CUDA_VISIBLE_DEVICES in their environment) do not share.
    """
    started = [arm for arm in study.arms if arm.server is None]
    if not has_gpu or len(started) < 2:
        return
    shares = {arm.name: _share(study, arm) for arm in started}
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


def _share(study: Study, arm: Arm) -> float | None:
    flags: Mapping[str, FlagValue] = {
        name.replace("_", "-"): value for name, value in (study.engine_flags | arm.flags).items()
    }
    share = next((flags[name] for name in MEMORY_FLAGS if name in flags), None)
    return float(share) if isinstance(share, (int, float)) and not isinstance(share, bool) else None


def _sharing(arms: Sequence[Arm]) -> Iterator[list[Arm]]:
    """Yield for each GPU the arms on it, as far as they name their GPUs; one that names none is on every GPU."""
    devices = {arm.name: _devices(arm) for arm in arms}
    every = sorted(set().union(*(visible for visible in devices.values() if visible is not None)))
    for device in every or [""]:
        yield [arm for arm in arms if (visible := devices[arm.name]) is None or device in visible]


def _devices(arm: Arm) -> set[str] | None:
    listed = arm.environment.get("CUDA_VISIBLE_DEVICES")
    return None if listed is None else {part.strip() for part in listed.split(",") if part.strip()}
