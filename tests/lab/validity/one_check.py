"""What one check says of a run, and short runs for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.metrics.measure import Value, measure
from lab.metrics.records import TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.validity import CHECKS, Finding, Skipped
from lab.validity.evidence import Evidence
from tests.lab.validity.healthy import Measured
from tests.lab.validity.trapped import plain

CHECK = {check.name: check for check in CHECKS}


def few(count: int, of: Measured | None = None, **changes: Any) -> Measured:
    """The first requests of a healthy run, all with these changes."""
    run = of or plain()
    return replace(run, requests=tuple(replace(request, **changes) for request in run.requests[:count]))


def answer(check: str, run: Measured, **metrics: Value) -> Finding | Skipped | None:
    """What one check says of a run; `metrics` replace those that follow from its requests."""
    requests = RequestTable.of(run.requests)
    measured = measure(run.run, requests, run.samples) | metrics
    return CHECK[check].judge(Evidence(run.run, requests, run.samples, measured, run.engine_log, run.unrecorded))


def severity_of(outcome: Finding | Skipped | None) -> str | None:
    """How grave the finding is, or what the check lacked."""
    return (
        f"skipped: {outcome.missing}" if isinstance(outcome, Skipped) else None if outcome is None else outcome.severity
    )


def samples(*change: tuple[int, dict[str, Any]]) -> Measured:
    """So many samples of each kind, one kind after the other."""
    sample: TelemetrySample = plain().samples[0]
    return replace(
        plain(), samples=tuple(replace(sample, **changes) for count, changes in change for _ in range(count))
    )
