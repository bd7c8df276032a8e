"""What `drafthouse verify` says of an engine's build, the driver, the GPUs, and of NUMA nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.settings import Settings
from jobs.engines.capabilities import Capabilities
from services.verifying import builds
from services.verifying.builds import Build, across, build_of, judged, numa_nodes, runs
from tests.workers.conftest import library  # noqa: F401 - a fixture
from tests.workers.probes.stand_in_nvml import EightGpus, Install
from workers.division import Slot, Topology

H200 = {"NVIDIA H200": (9, 0)}
BUILD = Build("12.8", ("sm_80", "sm_90", "sm_100a", "compute_100"))
VLLM = Capabilities(engine="vllm", kind="vllm", version="0.32.0", methods=(), flags=None, gpus=())


@pytest.mark.parametrize(
    ("capability", "fits"),
    [((9, 0), True), ((8, 6), True), ((7, 5), False), ((10, 3), True), ((12, 0), True), ((11, 0), True)],
)
def test_code_runs_on_its_major_version_and_ptx_on_newer_ones(capability: tuple[int, int], *, fits: bool) -> None:
    assert runs(BUILD, *capability) is fits


@given(st.tuples(st.integers(5, 12), st.integers(0, 9)), st.tuples(st.integers(5, 12), st.integers(0, 9)))
def test_code_of_one_kind_runs_nowhere_else(built: tuple[int, int], gpu: tuple[int, int]) -> None:
    name = f"{built[0]}{built[1]}"
    assert runs(Build("12.8", (f"sm_{name}a",)), *gpu) is (built == gpu)
    machine_code, ptx = (runs(Build("12.8", (f"{form}_{name}",)), *gpu) for form in ("sm", "compute"))
    assert ptx is (gpu >= built)
    assert machine_code is (gpu >= built and gpu[0] == built[0])


def test_a_fitting_build_and_driver_are_shown_with_their_versions() -> None:
    fine = judged("vllm: build", BUILD, has_gpus=True, driver=13_000, kinds=H200)
    assert fine.ok
    assert fine.found == "built for CUDA 12.8, the driver knows 13.0; it was built for NVIDIA H200 (sm_90)"
    assert judged("b", BUILD, has_gpus=True, driver=12_020, kinds=H200).ok  # of the same major version


def test_what_does_not_fit_says_what_to_do() -> None:
    old = judged("b", BUILD, has_gpus=True, driver=11_080, kinds=H200)
    assert (old.ok, old.found) == (False, "built for CUDA 12.8, the driver knows 11.8")
    assert "update the driver to one for CUDA 12.8" in old.remedy
    turing = judged("b", BUILD, has_gpus=True, driver=13_000, kinds=H200 | {"Tesla T4": (7, 5)})
    assert not turing.ok
    assert "it was not built for Tesla T4 (sm_75), only for sm_80, sm_90" in turing.found
    on_processors = judged("b", Build(None, ()), has_gpus=True, driver=13_000, kinds=H200)
    assert (on_processors.ok, "drafthouse install" in on_processors.remedy) == (False, True)
    assert judged("b", Build(None, ()), has_gpus=False, driver=None, kinds={}).ok
    assert not judged("b", BUILD, has_gpus=False, driver=None, kinds={}).ok


@pytest.mark.engine
def test_a_cpu_build_on_a_host_with_gpus_is_reported(library: Install) -> None:  # noqa: F811
    (here,) = builds.fits(Settings(), [VLLM])
    assert (here.what, here.ok, here.found) == ("vllm: build", True, "no CUDA: a build for processors")
    library(EightGpus())
    (there,) = builds.fits(Settings(), [VLLM])
    assert not there.ok


def test_an_engine_without_a_python_to_ask_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no Python beside docker"):
        build_of(tmp_path / "docker")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named torch' >&2; exit 1\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(ValueError, match="its Python says: No module named torch"):
        build_of(tmp_path / "vllm")


def test_what_torch_prints_does_not_hide_its_build(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import atexit, types\nprint('loading', end='', flush=True)\natexit.register(print, 'done')\n"
        "version = types.SimpleNamespace(cuda='12.8')\ncuda = types.SimpleNamespace(get_arch_list=lambda: ['sm_90'])\n",
        encoding="utf-8",
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    assert build_of(tmp_path / "vllm") == Build("12.8", ("sm_90",))


TWO_NODES = [frozenset(range(4)), frozenset(range(4, 8))]


def slot(number: int, processors: range, *gpus: int) -> Slot:
    return Slot(number, gpus, tuple(processors))


def test_slots_outside_the_node_of_their_gpus_are_named() -> None:
    near = Topology(near={0: TWO_NODES[0], 1: TWO_NODES[1]})
    halves = [slot(1, range(4), 0), slot(2, range(4, 8), 1)]
    assert across(halves, TWO_NODES, near).found == "2 nodes, 2 slots; each within one"
    crossed = across([slot(1, range(4), 1), slot(2, range(4, 8), 0)], TWO_NODES, near)
    assert (crossed.ok, crossed.found) == (False, "2 nodes, 2 slots; no processor of slot 1, 2 is near its GPUs")
    odd = across([slot(1, range(3)), slot(2, range(3, 6))], TWO_NODES, Topology())
    assert (odd.ok, odd.found) == (False, "2 nodes, 2 slots; slot 2 has processors of several")
    assert across([slot(1, range(8), 0, 1)], TWO_NODES, near).found == "2 nodes, 1 slot; it has all of them"


def test_nodes_are_those_of_the_system_that_have_processors(tmp_path: Path) -> None:
    for number, text in enumerate(("0-3,8\n", "4-7\n", "\n")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(text, encoding="utf-8")
    assert numa_nodes(tmp_path) == [frozenset((0, 1, 2, 3, 8)), frozenset(range(4, 8))]
    assert builds.numa(Settings(), [frozenset((0, 1))]).found == "one node"
    assert "not known" in builds.numa(Settings(), []).found
    assert builds.numa(Settings()).found
