"""The capacities found by a job's searches, from its valid trials."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lab.capacity.attainment import Observation
from lab.capacity.result import Capacity, capacities, goodput_at, observation
from lab.metrics.records import RunRecord
from warehouse.queries.rows import Row

_Trial = tuple[RunRecord, Observation, float | None]


def capacity_rows(runs: Iterable[RunRecord], metrics: Iterable[Row], usable: Collection[str]) -> list[Row]:
    """Return the rows of `capacities`. `metrics` are those of the runs, `usable` the ids of the trials that count."""
    by_run = {row["run_id"]: row for row in metrics}
    searches: dict[tuple[str, str, str], list[_Trial]] = {}
    for run in runs:
        if run.trial is None or run.run_id not in usable:
            continue
        figures = by_run[run.run_id]
        if (trial := observation(run.trial.search, run.load, run.repeat, figures)) is not None:
            name = (run.arm.name, run.workload.name, run.trial.search.name)
            searches.setdefault(name, []).append((run, trial, figures["goodput_tok_per_s"]))
    return [row for trials in searches.values() for row in _rows(trials)]


def _rows(trials: Sequence[_Trial]) -> list[Row]:
    run = trials[0][0]
    if run.trial is None:
        return []
    search, speculation = run.trial.search, run.arm.speculation
    about = {
        "job_id": run.job_id,
        "arm": run.arm.name,
        "is_baseline": run.is_baseline,
        "method": speculation.method if speculation else "none",
        "num_speculative_tokens": speculation.num_speculative_tokens if speculation else None,
        "workload": run.workload.name,
        "category": run.workload.category or "all",
        "pattern": search.name,
        "concurrency": search.max_concurrency,
        "find": search.find,
        "slo_share": search.slo_share,
    }
    of_search = capacities([trial for _, trial, _ in trials], search)
    return [about | _figures(capacity, trials) for capacity in of_search]


def _figures(capacity: Capacity, trials: Sequence[_Trial]) -> Row:
    own = [
        (trial.load, rate) for _, trial, rate in trials if rate is not None and capacity.repeat in (None, trial.repeat)
    ]
    return {
        "repeat": capacity.repeat,
        "capacity": capacity.value,
        "low": capacity.low,
        "high": capacity.high,
        "trials": capacity.trials,
        "requests": capacity.requests,
        "goodput_tok_per_s": None if capacity.value is None else goodput_at(capacity.value, own),
    }
