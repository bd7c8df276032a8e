"""When a trial may end early: when enough of its requests have missed the SLO that the others cannot change the
result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from lab.metrics.slo import meets, unknown
from lab.study import Slo

#: A run with this many times the allowed misses adds nothing more to the search, so it may end early.
FAR_BEYOND = 4.0


def far_beyond(planned: int, allowed: float) -> int:
    """Return the number of misses from which a trial's load is far beyond the capacity, whatever follows."""
    return min(planned, math.ceil(FAR_BEYOND * allowed * planned))


@dataclass
class MissCount:
    """Counts the requests of a trial that missed the SLO. `share` of those planned must meet it.

    Requests are judged in batches, as soon as the trial might end: judging them one by one would
    keep the measuring client from its work.
    """

    slo: Slo
    share: float
    planned: int
    misses: int = 0  # of the requests judged so far
    _ended: list[RequestRecord] = field(default_factory=list)  # and not yet judged

    def add(self, request: RequestRecord) -> None:
        """Count a request that has ended."""
        self._ended.append(request)
        if self.misses + len(self._ended) >= self._enough:
            requests = RequestTable.of(self._ended)
            within = meets(requests, self.slo, from_intended=True) | unknown(requests, self.slo)
            self.misses += int((~(requests.is_completed & within)).sum())
            self._ended.clear()

    @property
    def why_enough(self) -> str | None:
        """Return why the trial may end, or None: the search learns nothing more than that the load is too great."""
        if self.misses < self._enough:
            return None
        return (
            f"{self.misses} of the {self.planned} requests had missed the SLO, which {self.share:.4g} of them are to "
            "meet: the load is far beyond the capacity"
        )

    @property
    def _enough(self) -> int:
        return far_beyond(self.planned, 1 - self.share)
