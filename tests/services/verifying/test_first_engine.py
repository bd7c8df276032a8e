"""The engine that `drafthouse verify` gives a host without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import UserError
from services.verifying.first_engine import fitting, install_first_engine
from tests.workers.conftest import library  # noqa: F401 - a fixture
from tests.workers.probes.stand_in_nvml import EightGpus, Install
from workers.engine_runtime.install import VLLM_FOR_CUDA_12, VLLM_VERSION
from workers.probes.nvml import cuda_of_driver


@pytest.mark.parametrize(
    ("driver", "version", "sentence"),
    [
        (13_000, VLLM_VERSION, "the driver knows CUDA 13.0: vLLM {newest}, built for CUDA 13.0, fits"),
        (14_010, VLLM_VERSION, "the driver knows CUDA 14.1: vLLM {newest}, built for CUDA 13.0, fits"),
        (12_040, VLLM_FOR_CUDA_12, "the driver knows CUDA 12.4: vLLM {older}, built for CUDA 12.8, fits; newer ones"),
        (None, VLLM_VERSION, "the driver does not say which CUDA it knows"),
    ],
)
def test_the_newest_build_that_the_driver_runs_is_chosen(driver: int | None, version: str, sentence: str) -> None:
    chosen, why = fitting(driver, has_gpus=True)
    assert chosen == version
    assert why.startswith(sentence.format(newest=VLLM_VERSION, older=VLLM_FOR_CUDA_12))
    assert fitting(None, has_gpus=False)[0] == VLLM_VERSION


def test_a_driver_that_no_build_fits_is_refused_before_anything_is_downloaded() -> None:
    with pytest.raises(UserError, match=re.escape("knows CUDA 11.8, and vLLM needs 12 or newer: update the driver")):
        fitting(11_080, has_gpus=True)


def test_the_driver_is_asked_which_cuda_it_knows(library: Install) -> None:  # noqa: F811
    assert cuda_of_driver() is None
    library(EightGpus())
    assert cuda_of_driver() == 13_000


def test_without_packages_and_without_transformers_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("UV_OFFLINE", "1"), ("UV_CACHE_DIR", str(tmp_path / "cache")), ("PATH", str(tmp_path))):
        monkeypatch.setenv(name, value)
    settings = Settings(home=tmp_path / "home", engines_dir=tmp_path / "engines")
    told: list[str] = []
    with pytest.raises(UserError, match=r"uv pip install failed"):
        install_first_engine(settings, None, told.append)
    assert told[1:] == [f"no NVIDIA GPU: vLLM {VLLM_VERSION}, built for processors, fits"]
    with pytest.raises(UserError, match="no Python of PATH has torch and transformers"):
        install_first_engine(settings, "transformers", told.append)
