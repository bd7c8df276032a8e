"""What `drafthouse verify` says of GPUs, by NVML's own interface."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from jobs.host_report import Finding
from services.verifying import gpus
from tests.workers.conftest import library  # noqa: F401 - a fixture
from tests.workers.probes.stand_in_nvml import Install, StandInNvml

RUN = {
    "status": "completed",
    "gpu_power_mean_w": 312.0,
    "gpu_memory_used_max_bytes": 2**33,
    "gpu_sm_clock_mean_mhz": 1755.0,
    "gpu_throttled_share": 0.25,
}


def found(nvml: StandInNvml, install: Install) -> dict[str, Finding]:
    """By a clock that stands still while nobody sleeps, so that a busy machine comes to no moment late."""
    install(nvml)
    slept_s = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: sum(slept_s))
        return {finding.what: finding for finding in gpus.energy(slept_s.append)}


def test_power_integrates_to_the_drivers_counter_where_there_is_one(library: Install) -> None:  # noqa: F811
    by_what = found(StandInNvml(), library)
    assert all(finding.ok for finding in by_what.values())
    assert "the driver's counter" in by_what["GPU 0: energy"].found
    assert by_what["GPU 1: energy"].found == "not measured: this GPU has no counter of energy or of power"
    assert by_what["GPU 0: power limit"].found == "700 W, by default 700 W"


def test_a_counter_of_half_the_power_and_a_lowered_limit_are_found(library: Install) -> None:  # noqa: F811
    nvml = StandInNvml()
    nvml.counted_mw, nvml.limit_mw = 150_000, 500_000
    by_what = found(nvml, library)
    assert not by_what["GPU 0: energy"].ok
    assert "update the driver" in by_what["GPU 0: energy"].remedy
    assert not by_what["GPU 0: power limit"].ok
    assert by_what["GPU 0: power limit"].remedy.endswith("`nvidia-smi -i 0 -pl 700`")


def test_runs_have_what_a_gpu_at_work_has(library: Install) -> None:  # noqa: F811
    library(StandInNvml())
    assert gpus.telemetry(pd.DataFrame([RUN])).found == (
        "312 to 312 W, 1755 to 1755 MHz, at most 8.0 GiB, throttled for 25 % of a window at most"
    )
    lacking = gpus.telemetry(pd.DataFrame([RUN, RUN | {"gpu_power_mean_w": None, "gpu_sm_clock_mean_mhz": 0.0}]))
    assert (lacking.ok, lacking.found) == (False, "runs without power, clocks")


def test_a_host_without_a_gpu_measures_none_of_it() -> None:
    assert [finding.found for finding in (gpus.telemetry(pd.DataFrame([RUN])), *gpus.energy())] == [
        "not measured: no NVIDIA GPU"
    ] * 2


@pytest.mark.parametrize(("integrated", "ok"), [(100, True), (114, True), (86, True), (116, False), (84, False)])
def test_boards_average_their_power_so_that_a_little_is_no_error(integrated: float, *, ok: bool) -> None:
    assert gpus.compared("GPU 0", integrated, 100.0).ok is ok
