"""BurstGPT: arrival times and lengths of requests to a real service. It has no texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from jobs.datasets.formats.rows import Category, Record, Row, checked

_EXAMPLE = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


class _Request(Record):
    model_config = ConfigDict(strict=False)  # every value of a CSV file is text

    timestamp_s: Annotated[float, Field(alias="Timestamp", ge=0)]
    model: Annotated[Category, Field(alias="Model")]
    request_tokens: Annotated[int, Field(alias="Request tokens", ge=0, le=1_000_000)]
    response_tokens: Annotated[int, Field(alias="Response tokens", ge=0, le=1_000_000)]


def row(record: Mapping[str, Any]) -> Row | None:
    """Parse a record; its model is the category. None for a failed request, which has no tokens on one side. Raises
    RowError.
    """
    request = checked(_Request, record, _EXAMPLE)
    if not request.request_tokens or not request.response_tokens:
        return None
    return Row(
        category=request.model,
        input_tokens=request.request_tokens,
        output_tokens=request.response_tokens,
        time_s=request.timestamp_s,
    )
