"""The columns of `request_records` and `telemetry`, generated from RequestRecord and TelemetrySample.

The ingester puts `run_id` before them. Of a request everything but its index can be null, because the files of other
tools record less.
"""

from __future__ import annotations

from lab.metrics import latency
from lab.metrics.records import FieldInfo, RequestRecord, TelemetrySample, field_infos
from warehouse.schema.column import Column, column, record_kinds


def _recorded(record: type[RequestRecord | TelemetrySample]) -> tuple[Column, ...]:
    """A column for each field of the record, with its meaning and unit."""
    kinds = record_kinds(record)
    return tuple(column(name, kinds[name], _comment(info)) for name, info in field_infos(record).items())


def _comment(info: FieldInfo) -> str:
    return info.comment if info.unit is None else f"{info.comment} [{info.unit}]"


_COMPUTED = (
    column("is_completed", "bool", "whether it ended without an error", latency.is_completed),
    column("send_delay_ms", "double?", "sent_s - intended_send_s, in ms", latency.send_delay_ms),
    column("ttft_ms", "double?", "time to first token: first_token_s - sent_s, in ms", latency.ttft_ms),
    column(
        "ttft_from_intended_ms",
        "double?",
        "first_token_s - intended_send_s, in ms: includes the wait in the client",
        latency.ttft_from_intended_ms,
    ),
    column(
        "tpot_ms",
        "double?",
        "time per output token: (last of chunk_s - first_token_s) / (completion_tokens - 1), in ms",
        latency.tpot_ms,
    ),
    column("e2e_ms", "double?", "end-to-end latency: end_s - sent_s, in ms", latency.e2e_ms),
)

REQUEST_COLUMNS: tuple[Column, ...] = (
    *(each if each.name == "index" else each.or_null() for each in _recorded(RequestRecord)),
    *_COMPUTED,
)
TELEMETRY_COLUMNS: tuple[Column, ...] = _recorded(TelemetrySample)
