"""Arrivals have the requested rate and burstiness, and are the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.study import Load
from workers.load.driver import intended_send_s

rates = st.floats(min_value=0.01, max_value=1000)
burstinesses = st.floats(min_value=0.05, max_value=50)
seeds = st.integers(min_value=0, max_value=2**32)
counts = st.integers(1, 300)


def open_load(rate_rps: float, burstiness: float, num_prompts: int = 200, **more: Any) -> Load:
    return Load(max_concurrency=1, num_prompts=num_prompts, request_rate_rps=rate_rps, burstiness=burstiness, **more)


def constant(rate_rps: float, num_prompts: int, **more: Any) -> Load:
    return open_load(rate_rps, 1.0, num_prompts, arrivals="constant", **more)


def ramp(from_rps: float, to_rps: float, num_prompts: int, **more: Any) -> Load:
    return open_load(from_rps, 1.0, num_prompts, arrivals="ramp", ramp_to_rps=to_rps, **more)


def trace(num_prompts: int, **more: Any) -> Load:
    return Load(max_concurrency=1, num_prompts=num_prompts, arrivals="trace", **more)


loads = st.one_of(
    st.builds(open_load, rates, burstinesses, counts),
    st.builds(constant, rates, counts),
    st.builds(ramp, rates, rates, counts),
)


@given(rate=rates, burstiness=burstinesses, seed=seeds, num_prompts=counts)
def test_the_realised_rate_is_the_rate_asked_for(rate: float, burstiness: float, seed: int, num_prompts: int) -> None:
    offsets = intended_send_s(open_load(rate, burstiness, num_prompts), seed)
    assert len(offsets) == num_prompts
    assert num_prompts / offsets[-1] == pytest.approx(rate)


@given(load=loads, seed=seeds)
def test_arrivals_never_go_back_in_time(load: Load, seed: int) -> None:
    offsets = intended_send_s(load, seed)
    assert len(offsets) == load.num_prompts
    assert offsets[0] >= 0
    assert (np.diff(offsets) >= 0).all()


@given(rate=rates, burstiness=burstinesses, seed=seeds)
def test_the_same_seed_gives_the_same_arrivals(rate: float, burstiness: float, seed: int) -> None:
    load = open_load(rate, burstiness)
    assert (intended_send_s(load, seed) == intended_send_s(load, seed)).all()
    assert (intended_send_s(load, seed) != intended_send_s(load, seed + 1)).any()


@given(burstiness=burstinesses, rate=rates, seed=seeds)
def test_the_realised_coefficient_of_variation_is_that_of_the_gamma_distribution(
    burstiness: float, rate: float, seed: int
) -> None:
    """Its own error shrinks with the root of the count, and grows with the tail of a bursty load."""
    count = 20_000
    gaps = np.diff(intended_send_s(open_load(rate, burstiness, count), seed), prepend=0.0)
    expected = 1 / np.sqrt(burstiness)
    error = expected * np.sqrt((0.5 + 1.5 * expected**2 + expected**4) / count)
    assert gaps.std() / gaps.mean() == pytest.approx(expected, abs=6 * error)


@given(burstiness=st.sampled_from([1e-300, 1e-9, 1e-5, 1e5, 1e6]), seed=seeds)
def test_an_extreme_burstiness_still_gives_the_rate(burstiness: float, seed: int) -> None:
    offsets = intended_send_s(open_load(2.0, burstiness, 10), seed)
    assert offsets[-1] == pytest.approx(5.0)


@given(num_prompts=st.integers(1, 100), seed=seeds)
def test_a_closed_loop_asks_for_everything_at_once(num_prompts: int, seed: int) -> None:
    for duration_s in (None, 0.1):
        load = Load(max_concurrency=1, num_prompts=num_prompts, duration_s=duration_s)
        assert intended_send_s(load, seed).tolist() == [0.0] * num_prompts


@given(rate=rates, num_prompts=counts)
def test_constant_arrivals_are_evenly_spaced(rate: float, num_prompts: int) -> None:
    gaps = np.diff(intended_send_s(constant(rate, num_prompts), seed=0), prepend=0.0)
    assert gaps == pytest.approx(1 / rate)


@given(first=rates, last=rates, num_prompts=counts)
def test_a_ramp_ends_at_its_last_rate_after_the_mean_of_both(first: float, last: float, num_prompts: int) -> None:
    offsets = intended_send_s(ramp(first, last, num_prompts), seed=0)
    assert offsets[-1] == pytest.approx(2 * num_prompts / (first + last), rel=1e-6)


def test_the_rate_of_a_ramp_changes_evenly() -> None:
    offsets = intended_send_s(ramp(1.0, 9.0, 50_000, duration_s=1000.0), seed=0)
    per_quarter = np.histogram(offsets, bins=4, range=(0, 1000))[0]
    assert per_quarter == pytest.approx([500, 1000, 1500, 2000], abs=1)


@given(rate=rates, num_prompts=counts)
def test_a_ramp_from_a_rate_to_itself_is_constant(rate: float, num_prompts: int) -> None:
    level, flat = (intended_send_s(load, 0) for load in (ramp(rate, rate, num_prompts), constant(rate, num_prompts)))
    assert level == pytest.approx(flat)


times = st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(sorted)


@given(times_s=times)
def test_a_trace_is_replayed_as_it_was_from_its_first_arrival_on(times_s: list[float]) -> None:
    offsets = intended_send_s(trace(len(times_s)), seed=0, trace_s=times_s)
    assert offsets.tolist() == [at - times_s[0] for at in times_s]


@given(times_s=times, rate=rates)
def test_a_trace_with_a_rate_keeps_its_shape_and_takes_the_rate(times_s: list[float], rate: float) -> None:
    offsets = intended_send_s(trace(len(times_s), request_rate_rps=rate), seed=0, trace_s=times_s)
    length_s = times_s[-1] - times_s[0]
    if length_s > 1e-3:
        assert len(times_s) / offsets[-1] == pytest.approx(rate)
        assert offsets / offsets[-1] == pytest.approx((np.array(times_s) - times_s[0]) / length_s)


@pytest.mark.parametrize("times_s", [None, [1.0], [2.0, 1.0], [0.0, float("nan")]])
def test_a_trace_without_usable_times_is_refused(times_s: list[float] | None) -> None:
    with pytest.raises(ValueError, match="arrival time"):
        intended_send_s(trace(2), seed=0, trace_s=times_s)


@given(load=loads, seed=seeds, share=st.floats(0.01, 1.5))
def test_a_duration_leaves_out_exactly_what_is_due_after_it(load: Load, seed: int, share: float) -> None:
    """A ramp is another ramp with a duration, so it is held to its own length."""
    whole = intended_send_s(load, seed)
    duration_s = float(whole[-1]) * share
    cut = intended_send_s(load.model_copy(update={"duration_s": duration_s}), seed)
    if load.arrivals == "ramp":
        assert (cut <= duration_s).all()
    else:
        assert cut.tolist() == whole[whole <= duration_s].tolist()
