"""The price of looks to the digit, since studies that ended by themselves were judged at it."""

from __future__ import annotations

import numpy as np
import pytest

from lab.comparison import looks
from lab.comparison.looks import paid, raised, unpaid


def test_five_percent_in_all_is_about_one_percent_each_look() -> None:
    """Before the second block nothing is looked at, and after the twelfth the price stays."""
    looks._nominal_levels.cache_clear()
    assert unpaid(0.05, np.array([float(blocks) for blocks in range(1, 14)]), 1) == pytest.approx(
        [
            *[0.012591615448] * 2,
            0.009155055094,
            0.009482466483,
            0.010010232883,
            0.01053410869,
            0.011019343233,
            0.011461259122,
            0.011862422219,
            0.012227081858,
            0.012559566154,
            *[0.012863811557] * 2,
        ],
        rel=1e-6,
    )


def test_a_p_value_pays_for_the_look_that_found_it() -> None:
    paid_p_values = paid(
        np.array([0.0, 1e-9, 0.01, 0.04, 0.5, 1.0]), np.array([2.0, 3.0, 4.0, 12.0, 20.0, 6.0]), [1] * 6
    )
    assert paid_p_values == pytest.approx(
        [0.0, 8.794100705799e-09, 0.05243544851841, 0.1261503491404, 0.7587908303402, 1.0]
    )
    blocks = np.array([2.0, 5.0, 12.0])
    for like in (1, 3, 9):
        assert paid(unpaid(0.05, blocks, like), blocks, [like] * 3) == pytest.approx([0.05] * 3)


def test_two_claims_pay_in_full_and_more_like_ones_pay_less() -> None:
    assert [raised(like) for like in (1, 2, 3, 6, 14, 40)] == pytest.approx([1, 1, 1.25, 2, 2.5, 2.5])
    blocks = np.array([2.0, 3.0, 8.0])
    alone, among = unpaid(0.001, blocks, 2), unpaid(0.001, blocks, 14)
    assert among == pytest.approx(2.5 * alone)
    assert paid(np.array([0.9]), np.array([9.0]), [14]) >= 0.9
