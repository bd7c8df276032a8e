"""The processes of a comparison of clients: commands whose CPU seconds are counted, and the server that both use."""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from host.settings import Settings
from jobs.engine_logs import engine_log
from jobs.engines.caches import cache_variables
from jobs.engines.profiles import fill_in, installed_profile, profile_environment, whole_environment
from lab.errors import EngineError
from lab.study import Arm, Study
from workers.engine_runtime.launch import Process, start_engine
from workers.engine_runtime.linked_packages import link_ours

_BENCH_PACKAGES = ("pandas", "python-dateutil", "six")


@dataclass(frozen=True)
class Counted:
    """The result of a command that succeeded."""

    stdout: str
    wall_s: float
    cpu_s: float  # user and system, including child processes


def counted(command: Sequence[str], environment: Mapping[str, str]) -> Counted:
    """Run a command to its end. Raises EngineError with the end of its output if it fails."""
    before_s, start_s = _children_cpu_s(), time.perf_counter()
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    wall_s, cpu_s = time.perf_counter() - start_s, _children_cpu_s() - before_s
    if done.returncode:
        raise EngineError(f"{command[0]} ended with status {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return Counted(done.stdout, wall_s, cpu_s)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def serving(settings: Settings, study: Study, arm: Arm) -> Iterator[str]:
    """Start the arm's engine as Drafthouse does, but open to the rival's client; yield its base URL once it has
    answered a request.
    """
    started: list[Process] = []
    try:
        start = start_engine(
            settings,
            study,
            arm,
            engine_log(settings.logs_dir, "bench"),
            lambda _command, process: started.append(process),
            keyed=False,
        )
        yield asyncio.run(start).command.endpoint.base_url
    finally:
        for process in started:
            process.stop(grace_s=5.0)


def vllm_program(settings: Settings, engine: str = "vllm") -> str:
    return fill_in(settings, installed_profile(settings, engine).command[0])


def vllm_environment(settings: Settings, study: Study, arm: Arm) -> dict[str, str]:
    """Return the environment in which Drafthouse would start this arm's engine, plus the packages that the rival
    needs.
    """
    profile = installed_profile(settings, arm.engine)
    own, caches = profile_environment(settings, profile, study, arm), cache_variables(settings.home)
    whole = whole_environment(settings.engines_dir, profile, own, caches)
    return whole | {"PYTHONPATH": str(_bench_packages(settings))}


def _bench_packages(settings: Settings) -> Path:
    """Link the extra packages of `vllm bench serve`, which are ours, into a folder: an engine does not need them."""
    folder = settings.engines_dir.absolute() / "vllm-bench-packages"
    if not (folder / "pandas" / "__init__.py").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        link_ours(_BENCH_PACKAGES, folder, with_needed=False)
    return folder
