"""Divides a host into equal slots: GPUs that are near each other, with the processors near them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

from jobs.engines import hardware
from jobs.engines.hardware import Device, HostGpu
from lab.errors import SettingsError
from workers.probes.nvml import gpus, known

#: Shown characters of a slice's UUID: enough to identify it.
_UUID_SHOWN = len("MIG-c7384736")
#: NVML's levels of a common ancestor are all below.
_WITHOUT_NVLINK = 100
#: Words of 64 processors: more than any host has.
_WORDS = 64


@dataclass(frozen=True)
class Slot:
    """The GPUs and processors that one worker may use."""

    number: int  # from 1
    gpus: tuple[Device, ...]
    processors: tuple[int, ...]

    def __str__(self) -> str:
        gpus = f"GPU {', '.join(str(gpu)[:_UUID_SHOWN] for gpu in self.gpus)}; " if self.gpus else ""
        return f"{self.number}: {gpus}processors {_ranges(self.processors)}"


@dataclass(frozen=True)
class Topology:
    """The distances between GPUs and processors of a host. Unknown ones are absent, and divided in numerical order."""

    #: By pair of GPUs; smaller is nearer.
    distances: Mapping[frozenset[Device], int] = field(default_factory=dict)
    #: The processors of each GPU's NUMA node.
    near: Mapping[Device, frozenset[int]] = field(default_factory=dict)
    #: The core of each processor; processors of one core share it.
    cores: Mapping[int, int] = field(default_factory=dict)


UNKNOWN = Topology()


def divide(slots: int, gpus: Sequence[Device], processors: Sequence[int], topology: Topology = UNKNOWN) -> list[Slot]:
    """Give every slot the same number of GPUs and processors; leftover processors stay free.

    As many slots as possible have GPUs that are as near each other as possible. Their processors are of their GPUs'
    NUMA nodes, even if processors of other nodes then stay free. Raises SettingsError if the GPUs cannot be divided
    equally, or if there are more slots than processors.
    """
    if len(gpus) % slots:
        raise SettingsError(f"slots = {slots}: {len(gpus)} GPUs cannot be divided equally; choose some with gpus")
    if len(processors) < slots:
        raise SettingsError(f"slots = {slots}: this host has {len(processors)} processors, and each slot needs one")
    each = len(gpus) // slots
    groups = _groups(gpus, each, topology.distances) if each else [()] * slots
    in_order = sorted(processors, key=lambda processor: (topology.cores.get(processor, processor), processor))
    near = [frozenset().union(*(topology.near.get(gpu, frozenset()) for gpu in group)) for group in groups]
    per_slot = len(processors) // slots
    shares = _near_shares(near, in_order) or [in_order[slot * per_slot :][:per_slot] for slot in range(slots)]
    return [
        Slot(number, gpus_of, tuple(sorted(share)))
        for number, (gpus_of, share) in enumerate(zip(groups, shares, strict=True), start=1)
    ]


def _groups(gpus: Sequence[Device], each: int, distances: Mapping[frozenset[Device], int]) -> list[tuple[Device, ...]]:
    """Form the nearest groups first, so that no GPU is taken from a group that could have been whole."""
    free, groups = list(gpus), list[tuple[Device, ...]]()
    pairs = itertools.combinations(gpus, 2) if each > 1 else ()
    for reach in sorted({distances.get(frozenset(pair), 0) for pair in pairs} | ({0} if each == 1 else set())):
        for first in tuple(free):
            group = _within(reach, first, free, each, distances) if first in free else ()
            if len(group) == each:
                groups.append(tuple(sorted(group, key=gpus.index)))
                free = [gpu for gpu in free if gpu not in group]
    return sorted(groups, key=lambda group: gpus.index(group[0]))


def _within(
    reach: int, first: Device, free: Sequence[Device], each: int, distances: Mapping[frozenset[Device], int]
) -> list[Device]:
    """Return up to `each` free GPUs, no two of them further apart than `reach`."""

    def distance(one: Device, other: Device) -> int:
        return distances.get(frozenset((one, other)), 0)

    group = [first]
    for gpu in sorted(free, key=lambda gpu: distance(first, gpu)):
        if len(group) < each and gpu != first and all(distance(gpu, other) <= reach for other in group):
            group.append(gpu)
    return group


def _near_shares(near: Sequence[Collection[int]], processors: Sequence[int]) -> list[list[int]] | None:
    """Give every slot the same number of its near processors, as many as possible; None if a slot has no near ones.
    Slots with the smallest choice get theirs first.
    """
    narrowest_first = sorted(range(len(near)), key=lambda slot: len(near[slot]))
    for each in range(len(processors) // len(near), 0, -1):
        free, shares = list(processors), dict[int, list[int]]()
        for slot in narrowest_first:
            shares[slot] = [processor for processor in free if processor in near[slot]][:each]
            free = [processor for processor in free if processor not in shares[slot]]
        if all(len(share) == each for share in shares.values()):
            return [shares[slot] for slot in range(len(near))]
    return None


def _ranges(numbers: Sequence[int]) -> str:
    """Write growing numbers like `0-3, 8`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def topology_of(own: Sequence[HostGpu], processors: Sequence[int]) -> Topology:
    """Read the known topology of these GPUs and processors from NVML. A slice has its GPU's location."""
    boards = {gpu.uuid: gpu.board for gpu in gpus()}
    board_of = {gpu.device: boards[gpu.uuid] for gpu in own if gpu.uuid in boards}
    near = {device: _near(board) & frozenset(processors) for device, board in board_of.items()}
    pairs = itertools.combinations(board_of, 2)
    distances = {frozenset(pair): _distance(*(board_of[device] for device in pair)) for pair in pairs}
    all_known = {pair: distance for pair, distance in distances.items() if distance is not None}
    return Topology(all_known if len(all_known) == len(distances) else {}, near, hardware.cores(processors))


def _distance(one: Any, other: Any) -> int | None:
    """Return a sortable distance: first whether NVLink connects the GPUs, then their common ancestor."""
    if one is other:
        return 0
    level = known(lambda: int(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)))
    link = known(lambda: int(pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)))
    if level is None:
        return None
    return level + (0 if link == pynvml.NVML_P2P_STATUS_OK else _WITHOUT_NVLINK)


def _near(handle: Any) -> frozenset[int]:
    words = known(lambda: list(pynvml.nvmlDeviceGetCpuAffinity(handle, _WORDS))) or ()
    return frozenset(64 * number + bit for number, word in enumerate(words) for bit in range(64) if word >> bit & 1)
