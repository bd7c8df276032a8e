"""The capacities that the searches of a job have found, from its valid trials."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lab.capacity.attainment import Observation
from lab.capacity.result import Capacity, capacities, goodput_at, observation
from lab.metrics.records import RunRecord
from warehouse.queries.comparing.paired_runs import Row

_Seen = tuple[RunRecord, Observation, float | None]


def capacity_rows(runs: Iterable[RunRecord], metrics: Iterable[Row], usable: Collection[str]) -> list[Row]:
    """Return the rows of `capacities`. `metrics` are those of the runs, `usable` the ids of the trials that count."""
    by_run = {row["run_id"]: row for row in metrics}
    searches: dict[tuple[str, str, str], list[_Seen]] = {}
    for run in runs:
        if run.trial is None or run.run_id not in usable:
            continue
        figures = by_run[run.run_id]
        if (seen := observation(run.trial.search, run.load, run.repeat, figures)) is not None:
            name = (run.arm.name, run.workload.name, run.trial.search.name)
            searches.setdefault(name, []).append((run, seen, figures["goodput_tok_per_s"]))
    return [row for found in searches.values() for row in _rows(found)]


def _rows(seen: Sequence[_Seen]) -> list[Row]:
    run = seen[0][0]
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
    found = capacities([each for _, each, _ in seen], search)
    return [about | _figures(each, seen) for each in found]


def _figures(found: Capacity, seen: Sequence[_Seen]) -> Row:
    own = [(each.load, rate) for _, each, rate in seen if rate is not None and found.repeat in (None, each.repeat)]
    return {
        "repeat": found.repeat,
        "capacity": found.value,
        "low": found.low,
        "high": found.high,
        "trials": found.trials,
        "requests": found.requests,
        "goodput_tok_per_s": None if found.value is None else goodput_at(found.value, own),
    }
