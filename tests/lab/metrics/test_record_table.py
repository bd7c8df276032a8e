"""Lists of different lengths, end to end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.record_table import Ragged


@given(lengths=st.lists(st.integers(0, 3), max_size=10))
def test_each_value_belongs_to_the_list_that_it_is_in(lengths: list[int]) -> None:
    bounds = np.cumsum([0, *lengths])
    ragged = Ragged(np.zeros(bounds[-1]), bounds, np.ones(len(lengths), dtype=np.bool_))
    owners = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert ragged.owners.tolist() == ragged.owners_of(np.arange(bounds[-1])).tolist() == owners
