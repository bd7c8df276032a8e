"""Part repeats: how many repeats a study needs."""

from __future__ import annotations

from benchmarks.deciding.repeats import repeats_needed


def test_a_large_effect_needs_two_repeats_and_a_small_one_many() -> None:
    assert repeats_needed(0.02, 1.5, tables=4) == 2
    assert repeats_needed(0.10, 1.05, tables=4, tried=(2, 3)) is None
