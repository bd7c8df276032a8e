"""The price of looks to the digit, since studies that ended by themselves were judged at it."""

from __future__ import annotations

import numpy as np
import pytest

from lab.comparison import looks
from lab.comparison.looks import paid, unpaid


def test_a_level_of_five_percent_is_reached_at_about_one_percent_each_look() -> None:
    """Before the second block nothing is looked at, and after the twelfth the price stays."""
    looks._nominal_levels.cache_clear()
    assert unpaid(0.05, np.array([float(blocks) for blocks in range(1, 14)])) == pytest.approx(
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


def test_a_p_value_is_paid_for_by_the_look_at_which_it_was_found() -> None:
    paid_p_values = paid(np.array([0.0, 1e-9, 0.01, 0.04, 0.5, 1.0]), np.array([2.0, 3.0, 4.0, 12.0, 20.0, 6.0]))
    assert paid_p_values == pytest.approx(
        [0.0, 8.794100705799e-09, 0.05243544851841, 0.1261503491404, 0.7587908303402, 1.0]
    )
    blocks = np.array([2.0, 5.0, 12.0])
    assert paid(unpaid(0.05, blocks), blocks) == pytest.approx([0.05] * 3)
