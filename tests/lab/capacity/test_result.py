"""What is computed from a search's trials beside the capacity itself."""

from __future__ import annotations

import pytest

from lab.capacity.result import goodput_at


def test_the_goodput_at_a_capacity_is_that_of_trials_near_it() -> None:
    far, near = (2.0, 20.0), (9.0, 900.0)
    assert goodput_at(10.0, [far, near]) == pytest.approx(1000.0, rel=1e-6)
    assert goodput_at(10.0, [near, (10.0, 1000.0), far]) == pytest.approx(1000.0, rel=1e-6)


def test_trials_without_a_token_within_the_slo_say_nothing_of_it() -> None:
    assert goodput_at(10.0, [(9.0, 0.0)]) is None
    assert goodput_at(10.0, [(10.0, 0.0), (5.0, 500.0)]) == pytest.approx(1000.0)
