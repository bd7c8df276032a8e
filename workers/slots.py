"""The slots of this host: equal parts of its GPUs and processors, with one worker each, which measure side by side.

With one slot, the default, the worker has the whole host. GPUs are numbered as by `nvidia-smi`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jobs.engines import hardware
from lab.errors import SettingsError, UserError
from lab.study import Arm, Study
from warehouse.settings import Settings

_DEVICES, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
#: Flags of vLLM and SGLang; an engine takes a GPU for each rank of their product.
_PARALLEL = (
    ("tensor-parallel-size", "tp-size", "tp"),
    ("pipeline-parallel-size", "pp-size", "pp"),
    ("data-parallel-size", "dp-size", "dp"),
)
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
#: Variables by which engines bind their threads to processors, as lists like 0-3,8 or 0-3|4-7.
_BINDS = ("VLLM_CPU_OMP_THREADS_BIND", "SGLANG_CPU_OMP_THREADS_BIND", "GOMP_CPU_AFFINITY")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::\d+)?")


@dataclass(frozen=True)
class Slot:
    """What one worker may use."""

    number: int  # from 1
    gpus: tuple[int, ...]
    processors: tuple[int, ...]

    def __str__(self) -> str:
        gpus = f"GPU {', '.join(map(str, self.gpus))}; " if self.gpus else ""
        return f"{self.number}: {gpus}processors {', '.join(map(str, self.processors))}"


def slots_here(settings: Settings) -> list[Slot]:
    """Return the slots of this host. Raises SettingsError if it cannot be divided as the settings say.

    Without the setting `gpus`, slots share the GPUs that CUDA_VISIBLE_DEVICES names, if it is set.
    """
    listed = settings.gpus.strip() or (os.environ.get(_DEVICES, "") if settings.slots > 1 else "")
    return divide(settings.slots, chosen(listed, len(hardware.all_gpus())), hardware.processors())


def chosen(listed: str, present: int) -> tuple[int, ...]:
    """Return the GPUs of a list like `0,2-5`; all that are present for an empty one. Raises SettingsError."""
    text = "".join(listed.split())
    if not text:
        return tuple(range(present))
    if not _LIST.fullmatch(text):
        raise SettingsError(f"gpus = {listed!r} is no list of GPUs: write it like 0,2-5")
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        end = int(last or first)
        if end >= present or int(first) > end:
            raise SettingsError(f"gpus = {listed!r}: there is no GPU {part} here, which has {present}, counted from 0")
        numbers.update(range(int(first), end + 1))
    return tuple(sorted(numbers))


def divide(slots: int, gpus: Sequence[int], processors: Sequence[int]) -> list[Slot]:
    """Give every slot as many neighbouring GPUs and processors as any other; processors left over stay free.

    Raises SettingsError if the GPUs cannot be divided equally, or if there are more slots than processors.
    """
    if len(gpus) % slots:
        raise SettingsError(f"slots = {slots}: {len(gpus)} GPUs cannot be divided equally; choose some with gpus")
    if len(processors) < slots:
        raise SettingsError(f"slots = {slots}: this host has {len(processors)} processors, and each slot needs one")
    each, cores = len(gpus) // slots, len(processors) // slots
    return [
        Slot(place + 1, tuple(gpus[place * each :][:each]), tuple(processors[place * cores :][:cores]))
        for place in range(slots)
    ]


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
        raise SettingsError(f"slot = {settings.slot}: this host has {len(slots)} (setting slots)")
    slot = slots[settings.slot - 1]
    if slot.gpus:
        hardware.use_only(slot.gpus)
        os.environ |= slot_environment(slot)
    if settings.slots > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, slot.processors)
    _taken[:] = [slot]
    return slot


def slot_environment(slot: Slot | None) -> dict[str, str]:
    """Return the variables that keep an engine on its slot's GPUs. An engine in a container gets no others of ours."""
    if slot is None or not slot.gpus:
        return {}
    return {_ORDER: "PCI_BUS_ID", _DEVICES: ",".join(map(str, slot.gpus))}


def slot_record() -> dict[str, JsonValue]:
    """Return what a run's record says of the slot beside the settings; nothing for a worker with the whole host."""
    slot = taken_slot()
    return {} if slot is None else {"slot_gpus": list(slot.gpus), "slot_processors": list(slot.processors)}


def refuse_outside_slot(slot: Slot | None, study: Study, arm: Arm, environment: Mapping[str, str]) -> None:
    """Raise UserError for an engine that would reach for another slot's GPUs or processors, or needs more GPUs than
    its slot has.

    `environment` is all of the engine's, whoever set it: the host, engines.toml or the arm.
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
    """Only numbers in the order of the bus can be compared: a name of a GPU or another order is refused, too."""
    wanted = [word.strip() for word in environment.get(_DEVICES, "").split(",") if word.strip()]
    mine = [str(gpu) for gpu in slot.gpus]
    if foreign := [word for word in wanted if word not in mine]:
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
    """Return how many GPUs the arm's engine takes: the product of its tensor, pipeline and data parallel sizes."""
    flags = {name.replace("_", "-"): value for name, value in (study.engine_flags | arm.flags).items()}
    return math.prod(
        max((int(str(flags[name])) for name in names if str(flags.get(name, "")).isdecimal()), default=1)
        for names in _PARALLEL
    )
