"""When a trial may end early: so many of its requests have missed the SLO that the others cannot change the result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from lab.metrics.slo import meets, unknown
from lab.study import Slo

#: Of a run with this many times the allowed misses only that counts: so it may as well be ended early.
FAR_BEYOND = 4.0


def far_beyond(planned: int, allowed: float) -> int:
    """So many misses of a trial say that its load is far beyond the capacity, and more of them say nothing else."""
    return min(planned, math.ceil(FAR_BEYOND * allowed * planned))


@dataclass
class MissCount:
    """Counts the requests of a trial that missed the SLO. `share` of those planned must meet it.

    Requests are judged together, as soon as there are so many that the trial might end: one by one, judging them would
    keep the measuring client from its work.
    """

    slo: Slo
    share: float
    planned: int
    misses: int = 0  # of the requests judged so far
    _ended: list[RequestRecord] = field(default_factory=list)  # and not yet judged

    def add(self, request: RequestRecord) -> None:
        """A request has ended."""
        self._ended.append(request)
        if self.misses + len(self._ended) >= self._enough:
            requests = RequestTable.of(self._ended)
            within = meets(requests, self.slo, from_intended=True) | unknown(requests, self.slo)
            self.misses += int((~(requests.is_completed & within)).sum())
            self._ended.clear()

    @property
    def why_enough(self) -> str | None:
        """Why the trial may end, or None: the search takes no more from it than that its load is too great."""
        if self.misses < self._enough:
            return None
        return (
            f"{self.misses} of the {self.planned} requests had missed the SLO, which {self.share:.4g} of them are to "
            "meet: the load is far beyond the capacity"
        )

    @property
    def _enough(self) -> int:
        return far_beyond(self.planned, 1 - self.share)
