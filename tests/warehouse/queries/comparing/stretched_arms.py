"""Bundles of a healthy run at another pace, as runs of any arm."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from host.settings import Settings
from lab.metrics.records import RequestRecord
from tests.lab.validity.healthy import healthy
from warehouse.bundles.run_bundle import write_bundle


def stretched(request: RequestRecord, factor: float) -> RequestRecord:
    times = ("intended_send_s", "sent_s", "first_token_s", "end_s")
    moved: dict[str, Any] = {name: None if (at := getattr(request, name)) is None else at * factor for name in times}
    return replace(request, **moved, chunk_s=tuple(at * factor for at in request.chunk_s))


@functools.lru_cache(64)  # many studies have arms of the same few paces
def _requests(*, drafted: bool, factor: float) -> tuple[RequestRecord, ...]:
    return tuple(stretched(request, factor) for request in healthy(drafted=drafted).requests)


def write_arm(settings: Settings, arm: str, repeat: int, factor: float, **changes: Any) -> None:
    base = healthy(drafted=arm == "drafted")
    requests = _requests(drafted=arm == "drafted", factor=factor)
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
