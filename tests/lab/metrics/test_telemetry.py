"""Energy, means and maxima of a window's samples; unknown stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.measure import energy_j, integral, measure, telemetry_metrics, throttled_share, time_mean
from lab.metrics.records import TelemetrySample
from tests.warehouse.runs import request, run_record


def sample(t_s: float, **probed: Any) -> TelemetrySample:
    return TelemetrySample(t_s, loop_lag_ms=0.1, requests_in_flight=1, requests_done=0, chunks_received=0, **probed)


def powers(*points: tuple[float, float | None]) -> list[TelemetrySample]:
    return [sample(t_s, gpu_power_w=power_w) for t_s, power_w in points]


def test_energy_is_power_integrated_by_the_trapezoidal_rule_from_the_windows_start() -> None:
    """100 W for the first second, then rising to 300 W within two, then 300 W for half a second."""
    assert energy_j(powers((1.0, 100.0), (3.0, 300.0), (3.5, 300.0))) == pytest.approx(100 + 400 + 150)


def test_a_window_shorter_than_a_second_has_the_energy_of_its_one_sample() -> None:
    assert energy_j(powers((0.5, 200.0))) == pytest.approx(100.0)


def test_energy_is_unknown_without_power_or_with_a_gap_in_it() -> None:
    assert energy_j([]) is None
    assert energy_j(powers((1.0, None))) is None
    assert energy_j(powers((1.0, 100.0), (2.0, None), (3.0, 100.0))) is None


@given(st.floats(0, 1000), st.lists(st.floats(0.01, 1e4), min_size=1, max_size=50, unique=True).map(sorted))
def test_constant_power_has_the_energy_of_power_times_time(power_w: float, ends_s: list[float]) -> None:
    assert energy_j(powers(*((t_s, power_w) for t_s in ends_s))) == pytest.approx(power_w * ends_s[-1])


@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=30, unique=True).map(sorted), st.floats(-5, 5), st.floats(-5, 5)
)
def test_the_integral_of_a_straight_line_is_exact(times_s: list[float], slope: float, start: float) -> None:
    first, last = times_s[0], times_s[-1]
    exact = slope * (last**2 - first**2) / 2 + start * (last - first)
    assert integral((t, slope * t + start) for t in times_s) == pytest.approx(exact, abs=1e-6)


def test_a_mean_weighs_each_sample_by_its_time() -> None:
    assert time_mean([(1.0, 10.0), (2.0, 10.0), (2.5, 60.0)]) == pytest.approx(20.0)
    assert time_mean([]) is None


@given(
    st.lists(st.tuples(st.floats(0.01, 1e4), st.floats(-1e6, 1e6)), min_size=1, unique_by=lambda p: p[0]).map(sorted)
)
def test_a_mean_lies_between_the_least_and_the_most(points: list[tuple[float, float]]) -> None:
    mean, values = time_mean(points), [value for _, value in points]
    assert mean is not None
    assert min(values) - 1e-6 <= mean <= max(values) + 1e-6


def test_only_what_holds_clocks_back_counts_as_throttling() -> None:
    reasons = ("", "gpu_idle", "applications_clocks_setting,gpu_idle", "gpu_idle,sw_power_cap", "hw_thermal_slowdown")
    assert throttled_share([sample(t, gpu_throttle_reasons=text) for t, text in enumerate(reasons, 1)]) == 2 / 5
    assert throttled_share([sample(1.0)]) is None


def test_a_host_without_a_gpu_has_null_figures_of_gpus_and_figures_of_its_own() -> None:
    found = telemetry_metrics([sample(1.0, host_cpu_percent=50.0, host_memory_used_bytes=2**30)])
    assert {name for name, value in found.items() if value is not None} == {
        "host_cpu_mean_percent",
        "host_memory_used_max_bytes",
    }


def test_a_run_has_the_figures_of_its_samples() -> None:
    gpu = {"gpu_power_w": 100.0, "gpu_memory_used_bytes": 5, "gpu_temperature_c": 60.0, "gpu_utilisation_percent": 90.0}
    engine = {"kv_cache_usage": 0.5, "engine_running": 3, "engine_waiting": 2}
    values = measure(run_record(), (request(),), (sample(1.0, **gpu, **engine), sample(2.0, **gpu, **engine)))
    assert (values["energy_j"], values["energy_j_per_output_token"], values["gpu_power_mean_w"]) == (200.0, 50.0, 100.0)
    assert (values["kv_cache_usage_max"], values["engine_waiting_max"], values["engine_running_mean"]) == (0.5, 2, 3.0)
    assert (values["gpu_temperature_max_c"], values["gpu_utilisation_mean_percent"]) == (60.0, 90.0)


def test_a_failed_run_has_no_energy_either() -> None:
    values = measure(run_record(status="failed", error="x"), (), (sample(1.0, gpu_power_w=100.0),))
    assert values["energy_j"] is None
