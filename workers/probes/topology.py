"""Which GPUs of this host are near each other, and which processors are near them, by NVML."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pynvml

from jobs.engines import hardware
from jobs.engines.hardware import HostGpu
from workers.division import Topology
from workers.probes.nvml import gpus, known

#: NVML's levels of a common ancestor are all below.
_WITHOUT_NVLINK = 100
#: Words of 64 processors: more than any host has.
_WORDS = 64


def topology(mine: Sequence[HostGpu], processors: Sequence[int]) -> Topology:
    """Return what is known of these GPUs and processors. Slices of a GPU are where it is."""
    boards = {gpu.uuid: gpu.board for gpu in gpus()}
    places = {gpu.device: boards[gpu.uuid] for gpu in mine if gpu.uuid in boards}
    near = {device: _near(board) & frozenset(processors) for device, board in places.items()}
    pairs = itertools.combinations(places, 2)
    distances = {frozenset(pair): _distance(*(places[device] for device in pair)) for pair in pairs}
    all_known = {pair: distance for pair, distance in distances.items() if distance is not None}
    return Topology(all_known if len(all_known) == len(distances) else {}, near, hardware.cores(processors))


def _distance(one: Any, other: Any) -> int | None:
    """First whether NVLink connects them, over a switch or directly, then what else lies between them."""
    if one is other:
        return 0
    level = known(lambda: int(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)))
    link = known(lambda: int(pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)))
    if level is None:
        return None
    return level + (0 if link == pynvml.NVML_P2P_STATUS_OK else _WITHOUT_NVLINK)


def _near(handle: Any) -> frozenset[int]:
    words = known(lambda: list(pynvml.nvmlDeviceGetCpuAffinity(handle, _WORDS))) or ()
    return frozenset(64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1)
