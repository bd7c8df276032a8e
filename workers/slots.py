"""The slots of this host: equal parts of its GPUs and processors, with one worker each, which measure side by side.

With one slot, the default, the worker has the whole host. GPUs are numbered as by `nvidia-smi`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.engines import hardware
from lab.errors import SettingsError, UserError
from lab.study import Arm, Study
from warehouse.settings import Settings

_DEVICES = "CUDA_VISIBLE_DEVICES"
#: Flags of vLLM and SGLang; an engine takes a GPU for each rank of their product.
_PARALLEL = (
    ("tensor-parallel-size", "tp-size", "tp"),
    ("pipeline-parallel-size", "pp-size", "pp"),
    ("data-parallel-size", "dp-size", "dp"),
)
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


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
    """Return the slots of this host. Raises SettingsError if it cannot be divided as the settings say."""
    return divide(settings.slots, chosen(settings.gpus, len(hardware.all_gpus())), hardware.processors())


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
        os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", _DEVICES: ",".join(map(str, slot.gpus))}
    if settings.slots > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, slot.processors)
    return slot


def refuse_outside_slot(settings: Settings, study: Study, arm: Arm) -> None:
    """Raise UserError for an arm that would use GPUs of other slots, or needs more than a slot has."""
    if settings.slots == 1 or arm.server is not None:
        return
    if _DEVICES in arm.environment:
        raise UserError(
            f"arm {arm.name!r} sets {_DEVICES}, and this host hands out its GPUs in {settings.slots} slots: "
            "leave the variable out, or set slots to 1"
        )
    needed, present = gpus_needed(study, arm), len(hardware.nvidia_gpus())
    if 0 < present < needed:
        raise UserError(f"arm {arm.name!r} needs {needed} GPUs, and a slot of this host has {present}: use fewer slots")


def gpus_needed(study: Study, arm: Arm) -> int:
    """Return how many GPUs the arm's engine takes: the product of its tensor, pipeline and data parallel sizes."""
    flags = {name.replace("_", "-"): value for name, value in (study.engine_flags | arm.flags).items()}
    return math.prod(
        max((int(str(flags[name])) for name in names if str(flags.get(name, "")).isdecimal()), default=1)
        for names in _PARALLEL
    )
