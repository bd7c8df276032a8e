"""Arrivals keep the rate and burstiness that were asked for, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.study import Load
from workers.load.arrivals import intended_send_s

rates = st.floats(min_value=0.01, max_value=1000)
burstinesses = st.floats(min_value=0.05, max_value=50)
seeds = st.integers(min_value=0, max_value=2**32)


def open_load(rate_rps: float, burstiness: float, num_prompts: int = 200) -> Load:
    return Load(max_concurrency=1, num_prompts=num_prompts, request_rate_rps=rate_rps, burstiness=burstiness)


@given(rate=rates, burstiness=burstinesses, seed=seeds, num_prompts=st.integers(1, 300))
def test_the_realised_rate_is_the_rate_asked_for(rate: float, burstiness: float, seed: int, num_prompts: int) -> None:
    offsets = intended_send_s(open_load(rate, burstiness, num_prompts), seed)
    assert len(offsets) == num_prompts
    assert num_prompts / offsets[-1] == pytest.approx(rate)


@given(rate=rates, burstiness=burstinesses, seed=seeds)
def test_arrivals_never_go_back_in_time(rate: float, burstiness: float, seed: int) -> None:
    offsets = intended_send_s(open_load(rate, burstiness), seed)
    assert offsets[0] >= 0
    assert (np.diff(offsets) >= 0).all()


@given(rate=rates, burstiness=burstinesses, seed=seeds)
def test_the_same_seed_gives_the_same_arrivals(rate: float, burstiness: float, seed: int) -> None:
    load = open_load(rate, burstiness)
    assert (intended_send_s(load, seed) == intended_send_s(load, seed)).all()
    assert (intended_send_s(load, seed) != intended_send_s(load, seed + 1)).any()


@pytest.mark.parametrize("burstiness", [0.25, 0.5, 1.0, 4.0, 25.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_gaps_vary_by_one_over_the_root_of_burstiness(burstiness: float, seed: int) -> None:
    offsets = intended_send_s(open_load(10.0, burstiness, 20_000), seed)
    gaps = np.diff(offsets, prepend=0.0)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / np.sqrt(burstiness), rel=0.06)


@given(burstiness=st.sampled_from([1e-300, 1e-9, 1e-5, 1e9, 1e300]), seed=seeds)
def test_an_extreme_burstiness_still_gives_the_rate(burstiness: float, seed: int) -> None:
    offsets = intended_send_s(open_load(2.0, burstiness, 10), seed)
    assert offsets[-1] == pytest.approx(5.0)


@given(num_prompts=st.integers(1, 100), seed=seeds)
def test_a_closed_loop_asks_for_everything_at_once(num_prompts: int, seed: int) -> None:
    offsets = intended_send_s(Load(max_concurrency=1, num_prompts=num_prompts), seed)
    assert offsets.tolist() == [0.0] * num_prompts
