"""Bundles of a healthy run at another pace, as runs of any arm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.metrics.records import RequestRecord
from tests.lab.validity.healthy import healthy
from warehouse.bundles.run_bundle import write_bundle
from warehouse.settings import Settings


def stretched(request: RequestRecord, factor: float) -> RequestRecord:
    times = ("intended_send_s", "sent_s", "first_token_s", "end_s")
    moved: dict[str, Any] = {name: None if (at := getattr(request, name)) is None else at * factor for name in times}
    return replace(request, **moved, chunk_s=tuple(at * factor for at in request.chunk_s))


def write_arm(settings: Settings, arm: str, repeat: int, factor: float, **changes: Any) -> None:
    base = healthy(drafted=arm == "drafted")
    requests = [stretched(request, factor) for request in base.requests]
    values = {
        "run_id": f"{arm}-{repeat}",
        "cell_key": f"{arm}-{repeat}",
        "arm": base.run.arm.model_copy(update={"name": arm}),
        "is_baseline": arm == "plain",
        "repeat": repeat,
        "launch_index": repeat,
        "duration_s": max(request.end_s or 0 for request in requests),
        **changes,
    }
    write_bundle(settings.bundles, base.run.model_copy(update=values), requests, base.samples, None)
