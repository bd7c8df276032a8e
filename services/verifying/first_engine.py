"""Gives a host that has no engine its first one: the vLLM whose build fits the driver, or the host's transformers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from host.settings import Settings
from jobs.engines.hardware import hardware_name, nvidia_gpus
from lab.errors import UserError
from workers.engine_runtime.install import (
    VLLM_FOR_CUDA_12,
    VLLM_VERSION,
    add_engine,
    cuda_lock,
    folder_name,
    install_vllm,
)
from workers.engine_runtime.linked_packages import HostPython, host_python, install_transformers
from workers.engine_runtime.reference_models import prepare_models
from workers.probes.nvml import cuda_of_driver

_RUNTIME = re.compile(r"^nvidia-cuda-runtime==(\d+)\.(\d+)", re.MULTILINE)
_OLDER_CUDA = 12


def install_first_engine(settings: Settings, wanted: str | None, tell: Callable[[str], None]) -> None:
    """Install `wanted`, vllm or transformers, and the reference models. By default vLLM, and where no package can be
    had, transformers of this host's own Python. Raises UserError.
    """
    tell(hardware_name())
    python = None if wanted == "vllm" else host_python(os.environ)
    if wanted == "transformers":
        if python is None:
            raise UserError("no Python of PATH has torch and transformers: put the one that has them into PATH")
        _install_transformers(settings, python, tell)
    else:
        try:
            _install_vllm(settings, tell)
        except UserError as error:
            if python is None:
                raise
            tell(f"vLLM cannot be installed here: {str(error).strip().splitlines()[-1].strip()}")
            _install_transformers(settings, python, tell)
    tell(prepare_models(settings))


def _install_vllm(settings: Settings, tell: Callable[[str], None]) -> None:
    version, why = fitting(cuda_of_driver(), has_gpus=bool(nvidia_gpus()))
    tell(why)
    tell(install_vllm(settings.engines_dir / folder_name(version), version))
    if version != VLLM_VERSION:
        tell(add_engine(settings.engines_file, version))


def _install_transformers(settings: Settings, python: HostPython, tell: Callable[[str], None]) -> None:
    tell(install_transformers(settings.engines_dir, settings.engines_file, python))


def fitting(driver: int | None, *, has_gpus: bool) -> tuple[str, str]:
    """Return the version of vLLM whose build fits, and a sentence. `driver`: its newest CUDA version (12040 is 12.4).

    Raises UserError for a driver that no build fits.
    """
    if not has_gpus:
        return VLLM_VERSION, f"no NVIDIA GPU: vLLM {VLLM_VERSION}, built for processors, fits"
    lock = cuda_lock(VLLM_VERSION)
    built = None if lock is None else _RUNTIME.search(lock.read_text(encoding="utf-8"))
    if driver is None or built is None:
        return VLLM_VERSION, f"the driver does not say which CUDA it knows: vLLM {VLLM_VERSION} is tried"
    knows, cuda = f"the driver knows CUDA {driver // 1000}.{driver % 1000 // 10}", f"CUDA {built[1]}.{built[2]}"
    if driver // 1000 >= int(built[1]):
        return VLLM_VERSION, f"{knows}: vLLM {VLLM_VERSION}, built for {cuda}, fits"
    if driver // 1000 >= _OLDER_CUDA:
        return VLLM_FOR_CUDA_12, f"{knows}: vLLM {VLLM_FOR_CUDA_12}, built for CUDA 12.8, fits; newer ones want {cuda}"
    raise UserError(f"{knows}, and vLLM needs 12 or newer: update the driver")
