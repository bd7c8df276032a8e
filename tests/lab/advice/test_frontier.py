from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.advice import frontier

_NUMBER = st.integers(0, 5).map(float) | st.just(float("nan"))


@given(points=st.lists(st.tuples(_NUMBER, _NUMBER), max_size=12), higher_x=st.booleans(), higher_y=st.booleans())
def test_a_point_is_best_where_no_other_is_as_good_in_both_and_better_in_one(
    points: list[tuple[float, float]], *, higher_x: bool, higher_y: bool
) -> None:
    x, y = (np.array([point[place] for point in points]) for place in (0, 1))
    found = frontier.best(x, y, higher_x=higher_x, higher_y=higher_y)
    signs = (1 if higher_x else -1), (1 if higher_y else -1)
    good = [(signs[0] * one, signs[1] * other) for one, other in points]
    known = [point for point in good if not np.isnan(point).any()]
    wanted = [
        not np.isnan(point).any()
        and not any(other != point and other[0] >= point[0] and other[1] >= point[1] for other in known)
        for point in good
    ]
    assert found.tolist() == wanted
