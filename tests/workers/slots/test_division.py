"""How a host is divided into slots: equally, and with what is near each other together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.hardware import Device, HostGpu
from lab.errors import SettingsError
from tests.workers.probes.stand_in_nvml import EightGpus, Install, SlicedGpus
from workers.division import Slot, Topology, divide, topology_of

NEAR, LINKED, FAR = 40, 0, 150


def host(nodes: list[int], cores_each: int) -> Topology:
    """GPUs on these nodes, whose processors follow each other."""
    pairs = itertools.combinations(range(len(nodes)), 2)
    distances: dict[frozenset[Device], int] = {
        frozenset((a, b)): NEAR if nodes[a] == nodes[b] else FAR for a, b in pairs
    }
    near: dict[Device, frozenset[int]] = {
        gpu: frozenset(range(node * cores_each, (node + 1) * cores_each)) for gpu, node in enumerate(nodes)
    }
    return Topology(distances, near)


@given(st.integers(1, 8), st.integers(0, 4), st.integers(1, 64))
def test_slots_are_alike_and_share_nothing(slots: int, gpus_each: int, cores: int) -> None:
    gpus, mine = range(slots * gpus_each), range(max(cores, slots))
    divided = divide(slots, gpus, mine)
    assert [slot.number for slot in divided] == list(range(1, slots + 1))
    assert [gpu for slot in divided for gpu in slot.gpus] == list(gpus)
    used = [core for slot in divided for core in slot.processors]
    assert len(used) == len(set(used)) > len(mine) - slots
    assert len({(len(slot.gpus), len(slot.processors)) for slot in divided}) == 1


@given(st.data())
def test_as_many_slots_as_possible_have_gpus_and_processors_of_one_node(data: st.DataObject) -> None:
    slots, each = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    nodes = data.draw(st.lists(st.integers(0, 2), min_size=slots * each, max_size=slots * each))
    cores = data.draw(st.integers(slots, 20))
    known = host(nodes, cores)
    divided = divide(slots, range(len(nodes)), range(3 * cores), known)
    whole = [slot for slot in divided if len({known.near[gpu] for gpu in slot.gpus}) == 1]
    assert len(whole) == sum(nodes.count(node) // each for node in range(3))
    assert all(set(slot.processors) <= known.near[gpu] for slot in whole for gpu in slot.gpus)
    used = [core for slot in divided for core in slot.processors]
    assert len(used) == len(set(used))
    assert len({len(slot.processors) for slot in divided}) == 1
    assert sorted(gpu for slot in divided for gpu in slot.gpus) == list(range(len(nodes)))
    assert [slot.gpus for slot in divided] == sorted(slot.gpus for slot in divided)


def test_gpus_that_nvlink_connects_are_nearer_than_those_of_one_node() -> None:
    known = host([0, 0, 1, 1], 2)
    bridged: dict[frozenset[Device], int] = {frozenset((0, 3)): LINKED, frozenset((1, 2)): LINKED}
    divided = divide(2, range(4), range(4), Topology({**known.distances, **bridged}))
    assert [slot.gpus for slot in divided] == [(0, 3), (1, 2)]


def test_a_slot_has_whole_cores() -> None:
    threads = Topology(cores={number: number % 4 for number in range(8)})
    assert [slot.processors for slot in divide(2, (), range(8), threads)] == [(0, 1, 4, 5), (2, 3, 6, 7)]


def test_gpus_on_one_node_leave_the_processors_of_the_other_free() -> None:
    divided = divide(2, (0, 1), range(8), host([1, 1], 4))
    assert [str(slot) for slot in divided] == ["1: GPU 0; processors 4-5", "2: GPU 1; processors 6-7"]


def test_too_few_processors_near_the_gpus_are_divided_in_order() -> None:
    away = host([1, 1], 4)
    assert [slot.processors for slot in divide(2, (0, 1), range(4), away)] == [(0, 1), (2, 3)]


def divided_by_nvml(slots: int, gpus: tuple[int, ...] = tuple(range(8))) -> list[Slot]:
    listed = [HostGpu(gpu, "NVIDIA H200", f"GPU-{gpu}", gpu) for gpu in gpus]
    return divide(slots, gpus, range(8), topology_of(listed, range(8)))


def test_nvml_says_which_gpus_and_processors_belong_together(library: Install) -> None:
    library(EightGpus())
    assert [slot.gpus for slot in divided_by_nvml(4)] == [(0, 2), (1, 3), (4, 6), (5, 7)]
    first, second, *_ = divided_by_nvml(8)
    assert (set(first.processors) <= set(range(4)), set(second.processors) <= set(range(4, 8))) == (True, True)
    assert [slot.gpus for slot in divided_by_nvml(2, (1, 2, 5, 6))] == [(1, 5), (2, 6)]
    library(EightGpus(linked=((0, 4), (2, 6), (1, 5), (3, 7))))
    assert [slot.gpus for slot in divided_by_nvml(4)] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert [slot.gpus for slot in divided_by_nvml(2)] == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_slices_are_where_their_gpu_is(library: Install) -> None:
    library(SlicedGpus())
    slices = [HostGpu(uuid, "NVIDIA H200", uuid, 1) for uuid in ("MIG-1", "MIG-2")]
    known = topology_of([*slices, HostGpu(0, "NVIDIA H200", "GPU-aaaa", 0)], range(8))
    assert known.near == {"MIG-1": set(range(4)), "MIG-2": set(range(4)), 0: set(range(4, 8))}
    assert [slot.gpus for slot in divide(3, ("MIG-1", "MIG-2", 0), range(8), known)] == [("MIG-1",), ("MIG-2",), (0,)]


def test_a_host_of_unknown_topology_is_divided_in_the_order_of_numbers(library: Install) -> None:
    library(EightGpus(without_topology=True))
    assert [slot.gpus for slot in divided_by_nvml(4)] == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_a_host_that_cannot_be_divided_says_why() -> None:
    with pytest.raises(SettingsError, match="8 GPUs cannot be divided equally"):
        divide(3, range(8), range(8))
    with pytest.raises(SettingsError, match="this host has 2 processors"):
        divide(4, (), range(2))
