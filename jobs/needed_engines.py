"""Which engines queued jobs need, and which of these jobs a host with some engines can run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

import sqlalchemy as sa

from warehouse.app_db.schema import jobs

#: Jobs of which a claim reads the studies at once: few at first, because most claims take the first job of the queue.
_AT_ONCE, _MOST_AT_ONCE = 20, 1000


class EnginesHere:
    """The engines of a worker's host, and what is known of the jobs' needs: a study never changes, and is read once."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names
        self._needed: dict[str, frozenset[str]] = {}

    def runnable(self, connection: sa.Connection, queued: Sequence[str]) -> Iterator[str]:
        """Yield those of the queued jobs whose engines are all here, in the same order."""
        if len(self._needed) > 2 * len(queued):  # forget those that wait no longer
            self._needed = {job_id: self._needed[job_id] for job_id in queued if job_id in self._needed}
        first, at_once = 0, _AT_ONCE
        while some := queued[first : first + at_once]:
            first, at_once = first + at_once, min(2 * at_once, _MOST_AT_ONCE)
            if unknown := [job_id for job_id in some if job_id not in self._needed]:
                rows = connection.execute(sa.select(jobs.c.job_id, jobs.c.study_json).where(jobs.c.job_id.in_(unknown)))
                self._needed |= {row.job_id: _needed(row.study_json) for row in rows}
            yield from (job_id for job_id in some if self._needed.get(job_id, frozenset()).issubset(self.names))


def _needed(study_json: str) -> frozenset[str]:
    """Return no engine of a study that this Drafthouse cannot read: whoever claims it sets it aside."""
    try:
        return frozenset(str(arm["engine"]) for arm in json.loads(study_json)["arms"])
    except (ValueError, LookupError, TypeError):
        return frozenset()
