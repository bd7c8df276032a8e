"""When a trial may end early: so many of its requests have missed the SLO that the others would tell nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.metrics.latency import is_completed
from lab.metrics.records import RequestRecord
from lab.metrics.slo import meets, since_intended
from lab.study import Slo

#: Of a run with this many times the allowed misses only that counts: so it may as well be ended early.
FAR_BEYOND = 4.0


def far_beyond(planned: int, allowed: float) -> int:
    """So many misses of a trial say that its load is far beyond the capacity, and more of them say nothing else."""
    return min(planned, math.ceil(FAR_BEYOND * allowed * planned))


@dataclass
class MissCount:
    """Counts the requests of a trial that missed the SLO. `share` of those planned must meet it."""

    slo: Slo
    share: float
    planned: int
    misses: int = 0

    def add(self, request: RequestRecord) -> None:
        """A request has ended."""
        self.misses += not is_completed(request) or meets(since_intended(request), self.slo) is False

    @property
    def why_enough(self) -> str | None:
        """Why the trial may end, or None: the search takes no more from it than that its load is too great."""
        if self.misses < far_beyond(self.planned, 1 - self.share):
            return None
        return (
            f"{self.misses} of the {self.planned} requests had missed the SLO, which {self.share:.4g} of them are to "
            "meet: the load is far beyond the capacity"
        )
