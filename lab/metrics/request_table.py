"""The requests of a run as columns, for all that looks at many: metrics, checks, bundles, the ingester."""

from __future__ import annotations

from functools import cached_property

from lab.metrics.record_schema import record_schema
from lab.metrics.record_table import Mask, RecordTable
from lab.metrics.records import RequestRecord


class RequestTable(RecordTable):
    """Requests, with a column for each field of RequestRecord."""

    schema = record_schema(RequestRecord)

    @cached_property
    def is_completed(self) -> Mask:
        """Which requests ended without an error."""
        return ~self.known("error") & self.known("end_s")

    @cached_property
    def completed(self) -> RequestTable:
        return self.where(self.is_completed)
