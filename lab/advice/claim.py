"""Compare a claimed ratio with the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lab.comparison.verdict import Judged

Finding = Literal["refuted", "consistent", "exceeded", "inconclusive"]
#: From the least to the most favourable. A claim that names no cell is refuted only if all cells refute it.
ORDER: Sequence[Finding] = ("refuted", "inconclusive", "consistent", "exceeded")


def judge(claimed: float, cell: Judged) -> Finding:
    """Compare a claimed ratio to the baseline with the interval behind the cell's verdict.

    Refuted: the whole interval is worse than the claim; exceeded: better. An interval that holds the claim is
    consistent with it, unless the cell is inconclusive, where no effect is possible too.
    """
    gain = cell.gain
    wanted = claimed if cell.comparison.better == "higher" else 1 / claimed
    if gain is None or gain.low is None or gain.high is None:
        return "inconclusive"
    if gain.high < wanted:
        return "refuted"
    if gain.low > wanted:
        return "exceeded"
    return "inconclusive" if cell.verdict.word == "inconclusive" else "consistent"
