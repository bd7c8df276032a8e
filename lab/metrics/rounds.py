"""The rounds of a run, each with every metric that the run has, by the same formulas.

A run of a side-by-side study has several windows (`lab.schedule.rounds`). The same round of two arms sent the same
prompts at about the same time, so their ratio is free of what both have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.metrics.measure import data_of
from lab.metrics.records import RunRecord, RunWindow, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import RunData


@dataclass(frozen=True)
class Round:
    """One round of a run. `data.value(name)` is a metric of lab.metrics.catalogue, None if unknown."""

    number: int
    window: RunWindow
    data: RunData


def rounds_of(run: RunRecord, requests: RequestTable, samples: Sequence[TelemetrySample] = ()) -> list[Round]:
    """Return the rounds in which a run was measured, in order; none if it had one window.

    `requests` and `samples` are all of the run's, the samples in order of time.
    """
    numbers = requests.numbers("round")
    return [
        Round(
            number,
            window,
            data_of(
                _as_run(run, window),
                requests.where(numbers == number),
                [
                    replace(sample, t_s=sample.t_s - window.start_s)
                    for sample in samples
                    if window.start_s < sample.t_s <= window.end_s
                ],
                from_s=window.start_s,
            ),
        )
        for number, window in enumerate(run.windows or ())
    ]


def _as_run(run: RunRecord, window: RunWindow) -> RunRecord:
    """Return the record that the run would have had with this window alone."""
    before = None
    if window.counted is not None:
        zeros = {
            name: (0.0,) * len(counted) if isinstance(counted, tuple) else 0.0
            for name, counted in window.counted
            if counted is not None
        }
        before = ServerCounters(**zeros)
    return run.model_copy(
        update={
            "windows": None,
            "started_at": window.started_at,
            "duration_s": window.end_s - window.start_s,
            "counters_before": before,
            "counters_after": window.counted,
        }
    )
