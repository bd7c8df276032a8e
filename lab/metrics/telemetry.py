"""Numbers of a run's telemetry. The samples of a window are given in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from lab.metrics.records import TelemetrySample

#: NVML's clock event reasons that are not throttling: an idle GPU, or clocks set on purpose.
_NO_THROTTLING = {"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"}


def energy_j(samples: Sequence[TelemetrySample]) -> float | None:
    """Integrate power from the window's start to its last sample by the trapezoidal rule, in joules.

    Before the first sample, its power is assumed. If any sample has no power, the energy is unknown.
    """
    points = known(samples, "gpu_power_w")
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
    recorded = [sample.gpu_throttle_reasons for sample in samples if sample.gpu_throttle_reasons is not None]
    if not recorded:
        return None
    return sum(bool(set(filter(None, reasons.split(","))) - _NO_THROTTLING) for reasons in recorded) / len(recorded)


def known(samples: Sequence[TelemetrySample], field: str) -> list[tuple[float, float]]:
    """Return the time and the value of each sample that has the field."""
    values = ((sample.t_s, getattr(sample, field)) for sample in samples)
    return [(t_s, value) for t_s, value in values if value is not None]
