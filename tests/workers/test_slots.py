"""How a host is divided into slots, and what a worker of a slot may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.hardware import processors
from lab.errors import SettingsError, UserError
from tests.lab.studies import study
from warehouse.settings import Settings
from workers.slots import chosen, divide, gpus_needed, refuse_outside_slot

NVIDIA_SMI = """#!/bin/sh
for gpu in 0 1 2 3 4 5 6 7; do echo "NVIDIA H200"; done
"""
CONFINED = """
import json, os
from jobs.engines.hardware import hardware_name, processors
from jobs.engines.profiles import whole_environment, Profile
from pathlib import Path
from warehouse.settings import Settings
from workers.slots import take_slot
take_slot(Settings())
engine = whole_environment(Path(), Profile(kind="vllm", command=("x",)), {})
print(json.dumps([hardware_name(), processors(), engine.get("CUDA_VISIBLE_DEVICES")]))
"""


@given(st.integers(1, 8), st.integers(0, 4), st.integers(1, 64))
def test_slots_are_alike_and_share_nothing(slots: int, gpus_each: int, cores: int) -> None:
    gpus, mine = range(slots * gpus_each), range(max(cores, slots))
    divided = divide(slots, gpus, mine)
    assert [slot.number for slot in divided] == list(range(1, slots + 1))
    assert [gpu for slot in divided for gpu in slot.gpus] == list(gpus)
    used = [core for slot in divided for core in slot.processors]
    assert len(used) == len(set(used)) > len(mine) - slots
    assert len({(len(slot.gpus), len(slot.processors)) for slot in divided}) == 1


@given(st.sets(st.integers(0, 15), min_size=1))
def test_a_list_of_gpus_is_read_however_it_is_written(gpus: set[int]) -> None:
    assert chosen(" , ".join(map(str, gpus)), 16) == tuple(sorted(gpus))
    assert chosen(f"{min(gpus)}-{max(gpus)}", 16) == tuple(range(min(gpus), max(gpus) + 1))
    assert chosen("", len(gpus)) == tuple(range(len(gpus)))


@pytest.mark.parametrize(
    ("listed", "words"), [("8", "no GPU 8"), ("5-2", "no GPU 5-2"), ("a", "like 0,2-5"), ("1,", "like 0,2-5")]
)
def test_a_list_of_gpus_that_makes_no_sense_is_refused(listed: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        chosen(listed, 8)


def test_a_host_that_cannot_be_divided_says_why() -> None:
    with pytest.raises(SettingsError, match="8 GPUs cannot be divided equally"):
        divide(3, range(8), range(8))
    with pytest.raises(SettingsError, match="this host has 2 processors"):
        divide(4, (), range(2))


def test_an_arm_takes_a_gpu_for_each_of_its_ranks() -> None:
    ours = study(engine_flags={"tensor_parallel_size": 2})
    assert gpus_needed(ours, ours.arms[0]) == 2
    flags = {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}
    assert gpus_needed(ours, ours.arms[0].model_copy(update={"flags": flags})) == 8


def test_an_arm_does_not_reach_for_the_gpus_of_other_slots() -> None:
    ours = study()
    reaching = ours.arms[0].model_copy(update={"environment": {"CUDA_VISIBLE_DEVICES": "3"}})
    with pytest.raises(UserError, match="in 2 slots"):
        refuse_outside_slot(Settings(slots=2), ours, reaching)
    refuse_outside_slot(Settings(), ours, reaching)
    refuse_outside_slot(Settings(slots=2), ours, ours.arms[0])


def test_a_worker_of_a_slot_and_its_engines_have_the_gpus_of_the_slot_alone(tmp_path: Path) -> None:
    half = len(processors()) // 2
    second = processors()[half : 2 * half]
    assert confined(tmp_path, SLOTS="2", SLOT="2") == ["4 x NVIDIA H200", second, "4,5,6,7"]
    assert confined(tmp_path, SLOTS="2", SLOT="2", GPUS="0,2-3,7") == ["2 x NVIDIA H200", second, "3,7"]
    assert confined(tmp_path, GPUS="5") == ["NVIDIA H200", processors(), "5"]


def test_without_slots_a_worker_has_the_whole_host(tmp_path: Path) -> None:
    assert confined(tmp_path) == ["8 x NVIDIA H200", processors(), None]


def confined(tmp_path: Path, **settings: str) -> list[object]:
    """What a worker's process has on a host of eight GPUs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {f"DRAFTHOUSE_{name}": value for name, value in settings.items()}
    done = subprocess.run((sys.executable, "-c", CONFINED), env=environment, capture_output=True, text=True, check=True)
    found: list[object] = json.loads(done.stdout)
    return found
