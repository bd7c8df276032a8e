"""Compute the metrics of a run from its requests, counters and telemetry. Unknown is None, never 0."""

from __future__ import annotations

from collections.abc import Sequence

from lab.metrics.catalogue import LATENCIES, METRICS
from lab.metrics.definition import Value
from lab.metrics.histogram import histogram
from lab.metrics.latency import Latencies
from lab.metrics.records import RunRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import RunData

__all__ = ["Value", "data_of", "histograms", "measure", "samples_ms"]
_BY_NAME = {metric.name: metric for metric in METRICS}


def measure(
    run: RunRecord,
    requests: RequestTable,
    samples: Sequence[TelemetrySample] = (),
    latencies_ms: Latencies | None = None,
) -> dict[str, Value]:
    """Return every one of METRICS by name. A failed run has at most the counts of its requests.

    `latencies_ms` are those of the completed requests, if they have been computed already.
    """
    data = data_of(run, requests, samples, latencies_ms)
    return {name: data.value(name) for name in _BY_NAME}


def data_of(
    run: RunRecord,
    requests: RequestTable,
    samples: Sequence[TelemetrySample] = (),
    latencies_ms: Latencies | None = None,
    from_s: float = 0.0,
) -> RunData:
    """Return what computes each metric on demand."""
    latencies_ms = samples_ms(requests.completed) if latencies_ms is None else latencies_ms
    return RunData(_BY_NAME, run, requests, samples, latencies_ms, from_s)


def samples_ms(completed: RequestTable) -> Latencies:
    """Return all values of each of LATENCIES; None for one that is unknown."""
    return {name: latency.samples_ms(completed) for name, latency in LATENCIES.items()}


def histograms(run: RunRecord, latencies_ms: Latencies) -> dict[str, dict[int, int]]:
    """Return the histogram in ms of each of LATENCIES that is known; an empty dict for a failed run."""
    if run.status != "completed":
        return {}
    return {name: histogram(values) for name, values in latencies_ms.items() if values is not None and values.size}
