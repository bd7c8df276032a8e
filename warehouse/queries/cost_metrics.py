"""Costs as metrics of single runs, so that arms are compared by them as by any other number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from lab import cost
from lab.cost import Price
from lab.errors import QueryError
from lab.metrics.catalogue import BY_NAME
from warehouse.queries import paired_runs
from warehouse.queries.paired_runs import ArmRuns, dicts
from warehouse.queries.prices import prices


@dataclass(frozen=True)
class Cost:
    """A cost follows from the price of an hour and `rate`, a metric of the run."""

    rate: str
    formula: Callable[[float | None, float | None], float | None]


COSTS: Mapping[str, Cost] = {
    "cost_per_million_output_tokens": Cost("output_tok_per_s", cost.per_million_tokens),
    "cost_per_million_tokens": Cost("total_tok_per_s", cost.per_million_tokens),
    "cost_per_request": Cost("request_per_s", cost.per_request),
}
_RUNS = """
    SELECT run_id, coalesce(hardware, 'unknown hardware') AS hardware, study_id, started_at::DATE AS day
    FROM runs WHERE job_id IN (SELECT unnest(?))
"""


def arm_costs(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, price_usd_per_hour: float | None
) -> tuple[list[ArmRuns], str]:
    """`samples.arm_runs` with the cost of each run as its number, and the unit of that.

    Raises QueryError for hardware whose price nobody knows, and where prices are in several currencies.
    """
    known = prices(con, price_usd_per_hour)
    arms = paired_runs.arm_runs(con, jobs, COSTS[metric].rate)
    counting = {run.run_id for arm in arms for run in arm.runs}
    by_run = {row["run_id"]: known.of(row) for row in dicts(con, _RUNS, [list(jobs)]) if row["run_id"] in counting}
    currencies = sorted({price.currency for price in by_run.values()})
    if len(currencies) > 1:
        raise QueryError(f"prices in {' and '.join(currencies)} are not compared: say one with --price-per-hour")
    unit = BY_NAME[metric].unit.replace("currency", "".join(currencies))
    return [_costing(arm, COSTS[metric], by_run) for arm in arms], unit


def _costing(arm: ArmRuns, metric: Cost, by_run: Mapping[str, Price]) -> ArmRuns:
    runs = (replace(run, value=metric.formula(by_run[run.run_id].per_hour, run.value)) for run in arm.runs)
    return replace(arm, runs=tuple(runs))
