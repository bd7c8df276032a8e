"""How a host is divided into slots, and what a worker of a slot may use."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.hardware import HostGpu, listed_gpus, processors
from lab.errors import SettingsError, UserError
from tests.lab.studies import study
from tests.workers.homes import Home
from workers.division import Slot
from workers.engine_runtime.launch import engine_command
from workers.slots import chosen, gpus_needed, refuse_outside_slot, slot_record

NVIDIA_SMI = """#!/bin/sh
for gpu in 0 1 2 3 4 5 6 7; do echo "GPU $gpu: NVIDIA H200 (UUID: GPU-0000000$gpu-aaaa)"; done
"""
#: Two GPUs, of which the second is sliced in three.
SLICED = """#!/bin/sh
echo "GPU 0: NVIDIA H200 (UUID: GPU-00000000-aaaa)"
echo "GPU 1: NVIDIA H200 (UUID: GPU-00000001-aaaa)"
for slice in 0 1 2; do echo "  MIG 2g.35gb     Device  $slice: (UUID: MIG-0000000$slice-bbbb)"; done
"""
CONFINED = """
import json, os
from jobs.engines.hardware import hardware_name, processors
from jobs.engines.profiles import whole_environment, Profile
from pathlib import Path
from host.settings import Settings
from workers.slots import take_slot
take_slot(Settings())
engine = whole_environment(Path(), Profile(kind="vllm", command=("x",)), {})
print(json.dumps([hardware_name(), processors(), engine.get("CUDA_VISIBLE_DEVICES")]))
"""


def whole(count: int) -> tuple[HostGpu, ...]:
    return tuple(HostGpu(number, "NVIDIA H200", f"GPU-{number:02}-aaaa", number) for number in range(count))


@given(st.sets(st.integers(0, 15), min_size=1))
def test_a_list_of_gpus_is_read_however_it_is_written(gpus: set[int]) -> None:
    host = whole(16)
    assert chosen(" , ".join(map(str, gpus)), host) == tuple(host[gpu] for gpu in sorted(gpus))
    assert chosen(",".join(host[gpu].uuid for gpu in gpus), host) == tuple(host[gpu] for gpu in sorted(gpus))
    assert chosen(f"{min(gpus)}-{max(gpus)}", host) == host[min(gpus) : max(gpus) + 1]
    assert chosen("", host) == host


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        *(("8", "no GPU 8 here, which has 8, counted from 0"), ("5-2", "no GPU 5-2")),
        *(("a", "like 0,2-5"), ("1,", "like 0,2-5")),
        *(("MIG-0", "no GPUs here have a UUID that begins with MIG-0"), ("1,GPU-0", "8 GPUs here have")),
    ],
)
def test_a_list_of_gpus_that_makes_no_sense_is_refused(listed: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        chosen(listed, whole(8))


def test_the_slices_of_a_gpu_count_as_gpus(tmp_path: Path) -> None:
    second = confined(tmp_path, smi=SLICED, SLOTS="2", SLOT="2", GPUS="0,MIG-00000002")
    assert (second[0], second[2]) == ("NVIDIA H200 MIG 2g.35gb", "MIG-00000002-bbbb")
    with pytest.raises(subprocess.CalledProcessError) as refused_division:
        confined(tmp_path, smi=SLICED, GPUS="1")
    words = "slots = 1: a slot would have 3 GPUs, slices (MIG) among them, and an engine can"
    assert words in refused_division.value.stderr


def test_a_sliced_gpu_is_listed_by_its_slices() -> None:
    text = """GPU 0: NVIDIA H200 (UUID: GPU-a)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
  MIG 3g.20gb     Device  0: (UUID: MIG-b0)
  MIG 1c.2g.10gb  Device  1: (UUID: MIG-GPU-b/7/0)
"""
    name = "NVIDIA A100-SXM4-40GB MIG"
    slices = (
        HostGpu("MIG-b0", f"{name} 3g.20gb", "MIG-b0", 1),
        HostGpu("MIG-GPU-b/7/0", f"{name} 1c.2g.10gb", "MIG-GPU-b/7/0", 1),
    )
    assert listed_gpus(text) == (HostGpu(0, "NVIDIA H200", "GPU-a", 0), *slices)
    assert chosen("1", listed_gpus(text)) == slices
    assert listed_gpus("No devices found.\n") == ()


def test_a_slot_with_a_slice_keeps_its_engine_on_it() -> None:
    slice_of = Slot(1, ("MIG-c7384736-a75d-5afc",), (0, 1))
    assert str(slice_of) == "1: GPU MIG-c7384736; processors 0-1"
    assert refused(slice_of, CUDA_VISIBLE_DEVICES="MIG-c7384736-a75d-5afc") == ""
    assert "would use GPU 0 by CUDA_VISIBLE_DEVICES" in refused(slice_of, CUDA_VISIBLE_DEVICES="0")


def test_an_arm_takes_a_gpu_for_each_of_its_ranks() -> None:
    ours = study(engine_flags={"tensor_parallel_size": 2})
    assert gpus_needed(ours, ours.arms[0]) == 2
    flags = {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}
    assert gpus_needed(ours, ours.arms[0].model_copy(update={"flags": flags})) == 8
    assert gpus_needed(ours, ours.arms[0].model_copy(update={"config": {"pipeline_parallel_size": 2}})) == 4


def test_data_parallel_ranks_of_sglangs_attention_need_no_further_gpus() -> None:
    ours = study(engine_flags={"tp_size": 4, "dp_size": 4})
    assert gpus_needed(ours, ours.arms[0]) == 16
    assert gpus_needed(ours, ours.arms[0].model_copy(update={"flags": {"enable_dp_attention": True}})) == 4


SECOND = Slot(2, (2, 3), (4, 5))


def refused(slot: Slot | None = SECOND, /, **environment: str) -> str:
    """What the worker of this slot says of an engine with these variables; empty if it is started."""
    try:
        refuse_outside_slot(slot, study(), study().arms[0], environment)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("listed", ["1", "2,3,4", "0-7", "all", "GPU-8932f937", "-1"])
def test_an_engine_never_reaches_the_gpus_of_another_slot(listed: str) -> None:
    words = "and this worker has slot 2: GPU 2, 3; processors 4-5: leave the variable out of the arm and of"
    assert words in refused(CUDA_VISIBLE_DEVICES=listed)
    assert refused(None, CUDA_VISIBLE_DEVICES=listed) == ""


def test_an_engine_may_keep_to_a_part_of_its_slot() -> None:
    assert [refused(CUDA_VISIBLE_DEVICES=listed) for listed in ("2,3", " 3 ", "")] == [""] * 3
    assert refused(CUDA_VISIBLE_DEVICES="2", CUDA_DEVICE_ORDER="PCI_BUS_ID") == ""
    assert "order of the bus" in refused(CUDA_VISIBLE_DEVICES="2", CUDA_DEVICE_ORDER="FASTEST_FIRST")


@pytest.mark.parametrize("listed", ["0", "4-6", "4|5|6", "4 6", "4-8:2"])
@pytest.mark.parametrize("variable", ["VLLM_CPU_OMP_THREADS_BIND", "SGLANG_CPU_OMP_THREADS_BIND", "GOMP_CPU_AFFINITY"])
def test_an_engine_is_not_bound_to_the_processors_of_another_slot(variable: str, listed: str) -> None:
    assert f"by {variable}, and this worker has slot 2" in refused(**{variable: listed})
    assert refused(None, **{variable: listed}) == ""


def test_an_engine_is_bound_to_the_processors_of_its_slot() -> None:
    assert [refused(VLLM_CPU_OMP_THREADS_BIND=text) for text in ("4,5", "4-5", "5", "4|5", "auto", "all")] == [""] * 6


def test_an_engine_is_given_its_slot_and_its_profile_cannot_take_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.slots._taken", [SECOND])
    built, log = home.study(), home.folder / "log"
    own = engine_command(home.settings, built, built.arms[0], log).own_environment
    assert (own["CUDA_VISIBLE_DEVICES"], own["CUDA_DEVICE_ORDER"]) == ("2,3", "PCI_BUS_ID")
    assert slot_record() == {"slot_gpus": [2, 3], "slot_processors": [4, 5]}
    with home.settings.engines_file.open("a") as file:
        file.write('CUDA_VISIBLE_DEVICES = "0,2"\n')
    with pytest.raises(UserError, match="would use GPU 0 by CUDA_VISIBLE_DEVICES"):
        engine_command(home.settings, built, built.arms[0], log)


def test_an_arm_needs_no_more_gpus_than_its_slot_has() -> None:
    for size, words in ((2, ""), (4, "needs 4 GPUs, and a slot of this host has 2: use fewer slots")):
        large = study(engine_flags={"tensor_parallel_size": size})
        with pytest.raises(UserError, match=words) if words else contextlib.nullcontext():
            refuse_outside_slot(SECOND, large, large.arms[0], {})


def test_a_slots_worker_and_its_engines_have_its_gpus_alone(tmp_path: Path) -> None:
    half = len(processors()) // 2
    second = processors()[half : 2 * half]
    assert confined(tmp_path, SLOTS="2", SLOT="2") == ["4 x NVIDIA H200", second, "4,5,6,7"]
    assert confined(tmp_path, SLOTS="2", SLOT="2", GPUS="0,2-3,7") == ["2 x NVIDIA H200", second, "3,7"]
    assert confined(tmp_path, {"CUDA_VISIBLE_DEVICES": "4-7"}, SLOTS="2", SLOT="1")[2] == "4,5"
    assert confined(tmp_path, GPUS="5") == ["NVIDIA H200", processors(), "5"]


def test_without_slots_a_worker_has_the_whole_host(tmp_path: Path) -> None:
    assert confined(tmp_path) == ["8 x NVIDIA H200", processors(), None]


def confined(
    tmp_path: Path, inherited: Mapping[str, str] | None = None, *, smi: str = NVIDIA_SMI, **settings: str
) -> list[object]:
    """What a worker's process has on a host of eight GPUs, or of those that this `nvidia-smi` lists."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(smi)
    tool.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
    environment |= inherited or {}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {f"DRAFTHOUSE_{name}": value for name, value in settings.items()}
    done = subprocess.run((sys.executable, "-c", CONFINED), env=environment, capture_output=True, text=True, check=True)
    found: list[object] = json.loads(done.stdout)
    return found
