"""Compute the metrics of a run that come from its telemetry samples. Unknown is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from lab.metrics.records import TelemetrySample

#: NVML's clock event reasons that are not throttling: an idle GPU, or clocks set on purpose.
_NO_THROTTLING = {"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"}
_MEANS = {
    "gpu_power_mean_w": "gpu_power_w",
    "gpu_utilisation_mean_percent": "gpu_utilisation_percent",
    "gpu_sm_clock_mean_mhz": "gpu_sm_clock_mhz",
    "gpu_memory_clock_mean_mhz": "gpu_memory_clock_mhz",
    "gpu_temperature_mean_c": "gpu_temperature_c",
    "engine_running_mean": "engine_running",
    "engine_waiting_mean": "engine_waiting",
    "host_cpu_mean_percent": "host_cpu_percent",
}
_MAXIMA = {
    "gpu_memory_used_max_bytes": "gpu_memory_used_bytes",
    "gpu_temperature_max_c": "gpu_temperature_c",
    "kv_cache_usage_max": "kv_cache_usage",
    "engine_waiting_max": "engine_waiting",
    "host_memory_used_max_bytes": "host_memory_used_bytes",
}


def summary(samples: Sequence[TelemetrySample]) -> Mapping[str, float | None]:
    """Return means, maxima and energy of one window's samples, given in order of time."""
    return {
        "energy_j": energy_j(samples),
        "gpu_throttled_share": throttled_share(samples),
        **{name: time_mean(_known(samples, field)) for name, field in _MEANS.items()},
        **{name: max((value for _, value in _known(samples, field)), default=None) for name, field in _MAXIMA.items()},
    }


def energy_j(samples: Sequence[TelemetrySample]) -> float | None:
    """Integrate power from the window's start to its last sample by the trapezoidal rule, in joules.

    Before the first sample, its power is assumed. If any sample has no power, the energy is unknown.
    """
    points = _known(samples, "gpu_power_w")
    if not points or len(points) != len(samples):
        return None
    return integral([(0.0, points[0][1]), *points])


def integral(points: Iterable[tuple[float, float]]) -> float:
    """Integrate (time, value) points in order of time by the trapezoidal rule."""
    return sum((end_s - start_s) * (first + last) / 2 for (start_s, first), (end_s, last) in pairwise(points))


def time_mean(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean over time: each value is weighted by the time since the previous one (or the window's start).

    A window's last sample covers less than a second, so it must not weigh like the others.
    """
    starts = [0.0, *(t_s for t_s, _ in points)]
    weighted = [(t_s - start_s, value) for start_s, (t_s, value) in zip(starts, points, strict=False)]
    whole_s = sum(length_s for length_s, _ in weighted)
    return sum(length_s * value for length_s, value in weighted) / whole_s if whole_s > 0 else None


def throttled_share(samples: Sequence[TelemetrySample]) -> float | None:
    """Return the share of samples in which the GPUs' clocks were throttled."""
    known = [sample.gpu_throttle_reasons for sample in samples if sample.gpu_throttle_reasons is not None]
    if not known:
        return None
    return sum(bool(set(filter(None, reasons.split(","))) - _NO_THROTTLING) for reasons in known) / len(known)


def _known(samples: Sequence[TelemetrySample], field: str) -> list[tuple[float, float]]:
    values = ((sample.t_s, getattr(sample, field)) for sample in samples)
    return [(t_s, value) for t_s, value in values if value is not None]
