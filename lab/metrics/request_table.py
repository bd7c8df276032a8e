"""The requests of a run as columns, for metrics, checks, bundles and the ingester, which handle many at once."""

from __future__ import annotations

from functools import cached_property

from lab.metrics.record_columns import record_schema
from lab.metrics.record_table import Mask, RecordTable
from lab.metrics.records import RequestRecord


class RequestTable(RecordTable):
    """Requests, with a column for each field of RequestRecord."""

    schema = record_schema(RequestRecord)

    @cached_property
    def is_completed(self) -> Mask:
        """Return which requests ended without an error."""
        return ~self.known("error") & self.known("end_s")

    @property
    def completed(self) -> RequestTable:
        """Return the requests that ended without an error."""
        # Not cached if it is the table itself, which would refer to itself and stay in memory until it is collected.
        return self if self.is_completed.all() else self._completed

    @cached_property
    def _completed(self) -> RequestTable:
        return self.where(self.is_completed)
