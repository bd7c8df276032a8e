"""Checks that each engine's build fits the driver and the GPUs, and that slots fit the NUMA nodes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pynvml

from host.settings import Settings
from jobs.engines import hardware
from jobs.engines.capabilities import Capabilities
from jobs.engines.profiles import fill_in, installed_profile
from jobs.host_report import Finding
from lab.errors import INSTALL_COMMAND, UserError
from workers.division import Slot, Topology, topology_of
from workers.probes.nvml import Gpu, cuda_of_driver, gpus, known
from workers.slots import slots_here

#: What torch prints goes to the standard error.
_ASK = (
    "import json, os; output = os.dup(1); os.dup2(2, 1); import torch; "
    "os.write(output, json.dumps([torch.version.cuda, torch.cuda.get_arch_list()]).encode())"
)
#: Importing torch takes seconds, or many on a cold disk.
_ANSWERS_WITHIN_S = 120.0
_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
Capability = tuple[int, int]


@dataclass(frozen=True)
class Build:
    """The platform an engine's torch was built for: the CUDA version (None: CPUs) and architectures like sm_90."""

    cuda: str | None
    architectures: tuple[str, ...]


def fits(settings: Settings, engines: Sequence[Capabilities]) -> list[Finding]:
    """Check for each engine that the driver supports its CUDA version, and that it was built for each GPU."""
    boards = {gpu.index: gpu for gpu in gpus()}.values()  # a slice is of its GPU's kind
    driver = cuda_of_driver()
    kinds = {gpu.name: capability for gpu in boards if (capability := _capability(gpu)) is not None}
    return [_fit(settings, engine.engine, has_gpus=bool(boards), driver=driver, kinds=kinds) for engine in engines]


def _fit(
    settings: Settings, engine: str, *, has_gpus: bool, driver: int | None, kinds: Mapping[str, Capability]
) -> Finding:
    what = f"{engine}: build"
    try:
        build = build_of(Path(fill_in(settings, installed_profile(settings, engine).command[0])))
    except (UserError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Finding(what, ok=True, found=f"not known: {str(error).splitlines()[-1]}")
    return judged(what, build, has_gpus=has_gpus, driver=driver, kinds=kinds)


def build_of(program: Path) -> Build:
    """Query the Python beside an engine's program. Raises OSError, ValueError and SubprocessError."""
    python = program.with_name("python")
    if not python.exists():
        raise FileNotFoundError(f"there is no Python beside {program.name} to ask")
    done = subprocess.run(
        (str(python), "-c", _ASK), capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S
    )
    if done.returncode:
        raise ValueError(f"its Python says: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}")
    cuda, architectures = json.loads(done.stdout.splitlines()[-1])
    return Build(cuda, tuple(architectures))


def judged(what: str, build: Build, *, has_gpus: bool, driver: int | None, kinds: Mapping[str, Capability]) -> Finding:
    """Judge a build. `driver`: its newest CUDA version (12040 is 12.4); `kinds`: capability by GPU name."""
    if build.cuda is None:
        remedy = f"`{INSTALL_COMMAND}` installs the CUDA build where it finds the driver" if has_gpus else ""
        return Finding(what, ok=not has_gpus, found="no CUDA: a build for processors", remedy=remedy)
    found = f"built for CUDA {build.cuda}"
    if not has_gpus:
        return Finding(what, ok=False, found=f"{found}; no NVIDIA GPU is seen", remedy="see docs/troubleshooting.md")
    if driver is not None:
        found += f", the driver knows {driver // 1000}.{driver % 1000 // 10}"
    if driver is not None and driver // 1000 < int(build.cuda.partition(".")[0]):
        remedy = f"update the driver to one for CUDA {build.cuda}, or install an older version of the engine"
        return Finding(what, ok=False, found=found, remedy=remedy)
    foreign = [f"{name} (sm_{major}{minor})" for name, (major, minor) in kinds.items() if not runs(build, major, minor)]
    if foreign:
        found += f"; it was not built for {', '.join(foreign)}, only for {', '.join(build.architectures)}"
        return Finding(what, ok=False, found=found, remedy="install a version of the engine that was")
    named = ", ".join(f"{name} (sm_{major}{minor})" for name, (major, minor) in kinds.items())
    return Finding(what, ok=True, found=f"{found}; it was built for {named or 'GPUs whose kind is not reported'}")


def runs(build: Build, major: int, minor: int) -> bool:
    """Return whether the build's code runs on a GPU of this compute capability, by CUDA's rules.

    Machine code (sm) runs on its own major version from its minor on, code of a kind (sm_90a) only there; PTX (compute)
    is compiled on what is newer, too. A build that lists no architectures passes.
    """
    named = [found for text in build.architectures if (found := _ARCH.fullmatch(text))]
    return not named or any(
        (int(tens), int(ones)) == (major, minor)
        or (not kind and (int(tens), int(ones)) <= (major, minor) and (form == "compute" or int(tens) == major))
        for form, tens, ones, kind in (found.groups() for found in named)
    )


def _capability(gpu: Gpu) -> Capability | None:
    pair = known(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(gpu.board))
    return None if pair is None else (int(pair[0]), int(pair[1]))


def numa(settings: Settings, nodes: Sequence[frozenset[int]] | None = None) -> Finding:
    """Check that each slot's processors are in the NUMA node of its GPUs. `nodes`: their processors."""
    nodes = numa_nodes() if nodes is None else nodes
    if not nodes:
        return Finding("NUMA", ok=True, found="not known: this system lists no nodes")
    if len(nodes) == 1:
        return Finding("NUMA", ok=True, found="one node")
    return across(slots_here(settings), nodes, topology_of(hardware.all_gpus(), hardware.processors()))


def across(slots: Sequence[Slot], nodes: Sequence[frozenset[int]], near: Topology) -> Finding:
    """Judge the slots of a host with several nodes."""
    apart = [slot.number for slot in slots if not any(set(slot.processors) <= node for node in nodes)]
    far = [
        slot.number
        for slot in slots
        if any(gpu in near.near and not near.near[gpu] & set(slot.processors) for gpu in slot.gpus)
    ]
    found = f"{len(nodes)} nodes, {len(slots)} slot{'s' * (len(slots) != 1)}"
    if far:
        words = ", ".join(map(str, far))
        remedy = "let each slot have GPUs of one node (settings slots and gpus)"
        return Finding("NUMA", ok=False, found=f"{found}; no processor of slot {words} is near its GPUs", remedy=remedy)
    if apart and len(slots) > 1:
        words = ", ".join(map(str, apart))
        remedy = f"let the number of slots be a multiple of {len(nodes)}"
        return Finding("NUMA", ok=False, found=f"{found}; slot {words} has processors of several", remedy=remedy)
    return Finding("NUMA", ok=True, found=f"{found}; {'it has all of them' if apart else 'each within one'}")


def numa_nodes(root: Path = Path("/sys/devices/system/node")) -> list[frozenset[int]]:
    """Return the processors of each NUMA node that has any; empty if the system does not list them."""
    lists = sorted(root.glob("node[0-9]*/cpulist"))
    return [processors for file in lists if (processors := _numbers(file.read_text(encoding="utf-8")))]


def _numbers(text: str) -> frozenset[int]:
    """Read `0-3,8`."""
    ranges = (part.partition("-") for part in text.strip().split(",") if part)
    return frozenset(n for first, _, last in ranges for n in range(int(first), int(last or first) + 1))
