"""A tuning procedure measured on a mixture of experts: begin with 3 drafted tokens; over 50 % accepted try 4 to 5,
under 30 % drop to 2 or change the draft.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.advice.measured import Line, Measured

_LOW_RATE, _HIGH_RATE = 0.30, 0.50
#: How many drafted tokens to begin with.
FIRST_GAMMA = 3


def tuning(one: Measured) -> Iterator[Line]:
    """How many tokens to try next."""
    rate = one.acceptance_rate
    if rate is None:
        return
    if rate > _HIGH_RATE and one.gamma <= FIRST_GAMMA:
        yield Line(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, over {_HIGH_RATE:.0%}: try 4 to 5 drafted tokens",
            "rule of thumb",
            one.run_ids,
        )
    elif rate < _LOW_RATE:
        instead = "drop to 2 drafted tokens or change the draft model" if one.gamma > 2 else "change the draft model"
        yield Line(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, under {_LOW_RATE:.0%}: {instead}",
            "rule of thumb",
            one.run_ids,
        )
