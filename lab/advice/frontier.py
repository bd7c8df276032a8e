"""The Pareto frontier of points: those that no other point beats in one number without losing in the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best(
    x: NDArray[np.float64], y: NDArray[np.float64], *, higher_x: bool = True, higher_y: bool = True
) -> NDArray[np.bool_]:
    """Return whether each point (x, y) is on the Pareto frontier. Equal points all are; points with NaN never are."""
    across, up = (x if higher_x else -x), (y if higher_y else -y)
    known = ~(np.isnan(x) | np.isnan(y))
    found = np.zeros(x.shape, dtype=np.bool_)
    order = np.lexsort((-up, -across))  # from the best x on; of equal ones the best y first
    highest, at = -np.inf, np.nan
    for place in order[known[order]]:
        if up[place] > highest or (up[place] == highest and across[place] == at):
            found[place] = True
            highest, at = up[place], across[place]
    return found
