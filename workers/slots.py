"""The slots of this host: equal parts of its GPUs and processors, with one worker each, which measure side by side.

With one slot, the default, the worker has the whole host. GPUs are numbered as by `nvidia-smi`; slices of GPUs (MIG)
count as GPUs and have UUIDs instead of numbers.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from host.settings import Settings
from jobs.engines import hardware
from jobs.engines.flags import configured, merged
from jobs.engines.hardware import HostGpu
from lab.errors import SettingsError, UserError
from lab.study import Arm, Study
from workers.division import Slot, divide, topology_of

_DEVICES, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
#: Flags of vLLM and SGLang; an engine takes a GPU for each rank of their product.
_PARALLEL = (
    ("tensor-parallel-size", "tp-size", "tp"),
    ("pipeline-parallel-size", "pp-size", "pp"),
    ("data-parallel-size", "dp-size", "dp"),
)
_NUMBERS = re.compile(r"\d+(-\d+)?")
_UUIDS = ("GPU-", "MIG-")
#: Variables by which engines bind their threads to processors, as lists like 0-3,8 or 0-3|4-7.
_BINDS = ("VLLM_CPU_OMP_THREADS_BIND", "SGLANG_CPU_OMP_THREADS_BIND", "GOMP_CPU_AFFINITY")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::\d+)?")


def slots_here(settings: Settings) -> list[Slot]:
    """Return the slots of this host. Raises SettingsError if the host cannot be divided as the settings require.

    Without the setting `gpus`, slots share the GPUs that CUDA_VISIBLE_DEVICES names, if it is set.
    """
    listed = settings.gpus.strip() or (os.environ.get(_DEVICES, "") if settings.slots > 1 else "")
    gpus, processors = chosen(listed, hardware.all_gpus()), hardware.processors()
    slots = divide(settings.slots, [gpu.device for gpu in gpus], processors, topology_of(gpus, processors))
    if (settings.slots > 1 or listed) and any(isinstance(gpu, str) for slot in slots for gpu in slot.gpus[1:]):
        raise SettingsError(
            f"slots = {settings.slots}: a slot would have {len(slots[0].gpus)} GPUs, slices (MIG) among them, and an "
            f"engine can use one slice and nothing beside it: set slots to {len(gpus)}, or choose some with gpus"
        )
    return slots


def chosen(listed: str, present: Sequence[HostGpu]) -> tuple[HostGpu, ...]:
    """Return the GPUs of a list like `0,2-5,MIG-c7384736`; all present ones for an empty list.

    The number of a GPU that is sliced stands for all its slices. Raises SettingsError.
    """
    text = "".join(listed.split())
    if not text:
        return tuple(present)
    wanted: set[HostGpu] = set()
    for part in text.split(","):
        found = [gpu for gpu in present if gpu.uuid.startswith(part)] if part.startswith(_UUIDS) else []
        if part.startswith(_UUIDS) and len(found) != 1:
            raise SettingsError(
                f"gpus = {listed!r}: {len(found) or 'no'} GPUs here have a UUID that begins with {part}"
            )
        wanted.update(found or _numbered(part, listed, present))
    return tuple(gpu for gpu in present if gpu in wanted)


def _numbered(part: str, listed: str, present: Sequence[HostGpu]) -> list[HostGpu]:
    if not _NUMBERS.fullmatch(part):
        raise SettingsError(f"gpus = {listed!r} is not a list of GPUs: write it like 0,2-5")
    first, _, last = part.partition("-")
    numbers = {gpu.number for gpu in present}
    end = int(last or first)
    if end < int(first) or not numbers.issuperset(range(int(first), end + 1)):
        raise SettingsError(f"gpus = {listed!r}: there is no GPU {part} here, which has {len(numbers)}, counted from 0")
    return [gpu for gpu in present if int(first) <= gpu.number <= end]


#: The slot of this process, if it has taken one.
_taken: list[Slot] = []


def taken_slot() -> Slot | None:
    """Return the slot of this process; None if it has the whole host."""
    return _taken[0] if _taken else None


def take_slot(settings: Settings) -> Slot | None:
    """Confine this process, and the engines it will start, to its slot; None if it has the whole host.

    Call it before any thread is started. Raises SettingsError.
    """
    if settings.slots == 1 and not settings.gpus.strip():
        return None
    slots = slots_here(settings)
    if settings.slot > len(slots):
        raise SettingsError(f"slot = {settings.slot}: this host has {len(slots)} slots (setting slots)")
    slot = slots[settings.slot - 1]
    if slot.gpus:
        hardware.use_only(slot.gpus)
        os.environ |= slot_environment(slot)
    if settings.slots > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, slot.processors)
    _taken[:] = [slot]
    return slot


def slot_environment(slot: Slot | None) -> dict[str, str]:
    """Return the variables that keep an engine on its slot's GPUs. An engine in a container gets no other variables of
    ours.
    """
    if slot is None or not slot.gpus:
        return {}
    return {_ORDER: "PCI_BUS_ID", _DEVICES: ",".join(map(str, slot.gpus))}


def slot_record() -> dict[str, JsonValue]:
    """Return the record of the slot for a run, in addition to the settings; empty for a worker with the whole host."""
    slot = taken_slot()
    return {} if slot is None else {"slot_gpus": list(slot.gpus), "slot_processors": list(slot.processors)}


def refuse_outside_slot(slot: Slot | None, study: Study, arm: Arm, environment: Mapping[str, str]) -> None:
    """Raise UserError for an engine that would use another slot's GPUs or processors, or needs more GPUs than its slot
    has. `environment` is the engine's whole environment, set by the host, engines.toml or the arm.
    """
    if slot is None or arm.server is not None:
        return
    _refuse_foreign_gpus(slot, arm, environment)
    for name in _BINDS:
        if foreign := sorted(_numbers(environment.get(name, "")) - set(slot.processors)):
            raise UserError(
                f"the engine of arm {arm.name!r} would be bound to processor {foreign[0]} by {name}, and this worker "
                f"has slot {slot}: leave the variable out, or write {{engine_cores}} in engines.toml"
            )
    needed = gpus_needed(study, arm)
    if 0 < len(slot.gpus) < needed:
        raise UserError(
            f"arm {arm.name!r} needs {needed} GPUs, and a slot of this host has {len(slot.gpus)}: use fewer slots"
        )


def _refuse_foreign_gpus(slot: Slot, arm: Arm, environment: Mapping[str, str]) -> None:
    """Raise UserError for GPUs of other slots. Only numbers in bus order can be compared: names and other orders are
    refused, too.
    """
    wanted = [word.strip() for word in environment.get(_DEVICES, "").split(",") if word.strip()]
    own = [str(gpu) for gpu in slot.gpus]
    if foreign := [word for word in wanted if word not in own]:
        raise UserError(
            f"the engine of arm {arm.name!r} would use GPU {foreign[0]} by {_DEVICES}, and this worker has slot "
            f"{slot}: leave the variable out of the arm and of engines.toml, or set slots to 1"
        )
    if wanted and environment.get(_ORDER, "PCI_BUS_ID") != "PCI_BUS_ID":
        raise UserError(
            f"the engine of arm {arm.name!r} has {_ORDER} = {environment[_ORDER]!r}, and slots number GPUs in the "
            "order of the bus: leave the variable out"
        )


def _numbers(listed: str) -> set[int]:
    """Return every number of a list like `0-3,8|12 14-18:2`; words such as `auto` have none."""
    ranges = [(int(first), int(last or first)) for first, last in _RANGE.findall(listed)]
    return {number for first, last in ranges for number in range(first, last + 1)}


def gpus_needed(study: Study, arm: Arm) -> int:
    """Return how many GPUs the arm's engine takes: the product of its tensor, pipeline and data parallel sizes. In
    SGLang's attention, data parallel ranks are the tensor parallel ones.
    """
    given = configured(arm) | merged(study, arm)
    sizes = [
        max((int(str(given[name])) for name in names if str(given.get(name, "")).isdecimal()), default=1)
        for names in _PARALLEL
    ]
    return math.prod(sizes[:-1] if given.get("enable-dp-attention") is True else sizes)
