"""NVML without its library."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from tests.workers.probes.stand_in_nvml import Install, StandInNvml
from workers.probes.nvml import gpus


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a stand-in where pynvml keeps the library once it is loaded."""

    def install(stand_in: StandInNvml) -> StandInNvml:
        monkeypatch.setattr(pynvml, "nvmlLib", stand_in)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        gpus.cache_clear()
        return stand_in

    gpus.cache_clear()
    yield install
    gpus.cache_clear()
