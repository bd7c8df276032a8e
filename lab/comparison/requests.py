"""Which numbers of single requests a run's metric follows, so that an interval can speak of other prompts too."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.comparison.influence import Influence, mean, percentile

_LATENCY = re.compile(r"(ttft|tpot|e2e)_(mean|p(\d+))_ms")
#: In a closed loop, requests in flight / mean E2E latency is requests per second (Little 1961), so these follow it.
_THROUGHPUT = {"output_tok_per_s", "total_tok_per_s", "request_per_s"}


@dataclass(frozen=True)
class Follows:
    """`column` of the view `requests`; `influence` says how the run's number comes from it."""

    column: str
    influence: Influence


def follows(metric: str, *, closed_loop: bool) -> Follows | None:
    """None where nothing of single requests is known to move it: those are compared over repeats alone.

    ITL and ICL have many values a request and are not paired by prompt.
    """
    if found := _LATENCY.fullmatch(metric):
        q = found[3]
        return Follows(f"{found[1]}_ms", mean if q is None else percentile(int(q) / 100))
    if closed_loop and (metric in _THROUGHPUT or metric.startswith("cost")):
        return Follows("e2e_ms", mean)
    return None
