"""Checks NVML's reports on this host's GPUs for consistency: power against energy, limits against defaults."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pandas as pd
import pynvml

from jobs.host_report import Finding
from lab.metrics.number_format import percentage
from workers.probes.nvml import Gpu, gpus, known

_NO_GPU = "not measured: no NVIDIA GPU"
_WATCH_S, _EVERY_S = 5.0, 0.1
#: Boards average their power over up to a second, and the counter advances in steps.
_MOST_DIFFERENCE = 0.15


def telemetry(runs: pd.DataFrame) -> Finding:
    """Check that completed runs have the power, memory and clocks of a busy GPU."""
    if not gpus():
        return Finding("telemetry", ok=True, found=_NO_GPU)
    done = runs[runs["status"] == "completed"]
    lacking = [
        words
        for name, words in (
            ("gpu_power_mean_w", "power"),
            ("gpu_memory_used_max_bytes", "memory"),
            ("gpu_sm_clock_mean_mhz", "clocks"),
        )
        if done.empty or not (done[name] > 0).all()
    ]
    if lacking:
        remedy = "NVML must be readable where the worker runs: give its container the utility capability"
        return Finding("telemetry", ok=False, found=f"runs without {', '.join(lacking)}", remedy=remedy)
    power, clock = done["gpu_power_mean_w"], done["gpu_sm_clock_mean_mhz"]
    throttled = done["gpu_throttled_share"].max()
    return Finding(
        "telemetry",
        ok=True,
        found=f"{power.min():.0f} to {power.max():.0f} W, {clock.min():.0f} to {clock.max():.0f} MHz, "
        f"at most {done['gpu_memory_used_max_bytes'].max() / 2**30:.1f} GiB"
        + ("" if pd.isna(throttled) else f", throttled for {percentage(throttled)} of a window at most"),
    )


def energy(sleep: Callable[[float], None] = time.sleep) -> list[Finding]:
    """Compare each GPU's power integrated over five seconds with the driver's energy counter; check its limit."""
    if not gpus():
        return [Finding("power and energy", ok=True, found=_NO_GPU)]
    whole = {gpu.index: gpu for gpu in gpus()}  # slices share their GPU's power
    return [finding for gpu in whole.values() for finding in (_energy(gpu, sleep), _limit(gpu))]


def _energy(gpu: Gpu, sleep: Callable[[float], None]) -> Finding:
    what = f"GPU {gpu.index}: energy"
    before_mj = known(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu.board))
    powers_w: list[float] = []
    began_s = time.monotonic()
    for _ in range(round(_WATCH_S / _EVERY_S)):
        power_mw = known(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu.board))
        powers_w += [] if power_mw is None else [power_mw / 1000]
        sleep(_EVERY_S)
    after_mj = known(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu.board))
    if before_mj is None or after_mj is None or not powers_w:
        return Finding(what, ok=True, found="not measured: this GPU has no counter of energy or of power")
    return compared(what, statistics.fmean(powers_w) * (time.monotonic() - began_s), (after_mj - before_mj) / 1000)


def compared(what: str, integrated_j: float, counted_j: float) -> Finding:
    found = f"power integrated {integrated_j:.0f} J, the driver's counter {counted_j:.0f} J"
    is_near = counted_j > 0 and abs(integrated_j / counted_j - 1) <= _MOST_DIFFERENCE
    remedy = "" if is_near else "this GPU's energy figures cannot be trusted: update the driver"
    return Finding(what, ok=is_near, found=found, remedy=remedy)


def _limit(gpu: Gpu) -> Finding:
    what = f"GPU {gpu.index}: power limit"
    set_mw = known(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu.board))
    usual_mw = known(lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu.board))
    if set_mw is None or usual_mw is None:
        return Finding(what, ok=True, found="not reported")
    found = f"{set_mw / 1000:.0f} W, by default {usual_mw / 1000:.0f} W"
    remedy = "" if set_mw >= usual_mw else f"if this is unintended: `nvidia-smi -i {gpu.index} -pl {usual_mw // 1000}`"
    return Finding(what, ok=set_mw >= usual_mw, found=found, remedy=remedy)
