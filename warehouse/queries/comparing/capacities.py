"""The capacities that searches have found: as a metric of repeats, which comparisons read, and as a table of arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from lab import cost
from lab.capacity.result import UNITS
from lab.comparison.effect import Interval
from lab.comparison.samples import RunSample
from lab.errors import QueryError
from lab.metrics.catalogue import BY_NAME, CAPACITY, CAPACITY_CONCURRENCY, COST_AT_CAPACITY
from warehouse.queries.comparing import paired_runs
from warehouse.queries.comparing.paired_runs import ArmRuns, CellKey, host_of, launch_of
from warehouse.queries.prices import Prices, prices, unit_of_cost
from warehouse.queries.rows import Row, dicts

#: The `find` of a search, by the metric that it gives.
_FINDS = {CAPACITY.name: ("rate",), CAPACITY_CONCURRENCY.name: ("concurrency",)}
_ROWS = """
    WITH counted AS (
        SELECT * FROM results
        WHERE list_contains($1, job_id) AND search IS NOT NULL AND status = 'completed' AND is_valid IS NOT false
        QUALIFY row_number() OVER (PARTITION BY job_id, cell_key ORDER BY attempt DESC) = 1
    ),
    trials AS (
        SELECT job_id, arm, workload, search AS pattern, repeat, min(run_id) AS run_id, any_value(study_id) AS study_id,
            any_value(launch_index) AS launch_index, any_value(taken_over_from) AS taken_over_from,
            any_value(arm_id) AS arm_id, string_agg(DISTINCT host, ' and ' ORDER BY host)
                FILTER (origin = 'measured' OR tool = 'drafthouse') AS host,
            coalesce(any_value(hardware), 'unknown hardware') AS hardware, min(started_at)::DATE AS day
        FROM counted GROUP BY GROUPING SETS ((job_id, arm, workload, search, repeat), (job_id, arm, workload, search))
    )
    SELECT c.*, t.run_id, t.launch_index, t.taken_over_from, t.host, t.arm_id, t.study_id, t.hardware, t.day
    FROM capacities AS c JOIN trials AS t
        ON (c.job_id, c.arm, c.workload, c.pattern) = (t.job_id, t.arm, t.workload, t.pattern)
        AND c.repeat IS NOT DISTINCT FROM t.repeat
    ORDER BY c.workload, c.pattern, c.is_baseline DESC, c.arm, c.job_id, c.repeat
"""


@dataclass(frozen=True)
class ArmCapacity:
    """What a search found for one arm over all repeats; `found` is None beyond the bounds of the search.

    Beyond them `least` is a load that met the SLO, or `greatest` one that did not. The cost is that of a million
    output tokens within the SLO at the capacity, in `currency`.
    """

    job_id: str
    cell: CellKey
    arm: str
    is_baseline: bool
    find: str
    slo_share: float
    found: Interval | None
    least: float | None
    greatest: float | None
    trials: int
    cost: float | None
    currency: str | None

    @property
    def unit(self) -> str:
        return UNITS[self.find]

    @property
    def metric(self) -> str:
        """Return the name of the metric by which it is compared."""
        return CAPACITY.name if self.find == "rate" else CAPACITY_CONCURRENCY.name


def searched(con: duckdb.DuckDBPyConnection, jobs: Sequence[str]) -> list[str]:
    """Return which of the metrics of searches these jobs have, in the order of the catalogue."""
    searched_by = con.execute(
        "SELECT DISTINCT find FROM capacities WHERE list_contains(?, job_id)", [list(jobs)]
    ).fetchall()
    return [name for name, finds in _FINDS.items() if (finds[0],) in searched_by]


def arm_capacities(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, price_usd_per_hour: float | None
) -> tuple[list[ArmRuns], str]:
    """Return every arm in every search with its capacity, or its cost there, in each repeat, and their unit.

    Raises QueryError for jobs without a search, for hardware without a price, and for prices in several currencies.
    """
    rows = [row for row in dicts(con, _ROWS, [list(jobs)]) if row["repeat"] is not None]
    rows = [row for row in rows if row["find"] in _FINDS.get(metric, ("rate", "concurrency"))]
    if not rows:
        raise QueryError(f'no search has found {metric}: submit a study with a load that has find = "rate"')
    if metric != COST_AT_CAPACITY.name:
        return _by_arm(rows, [row["capacity"] for row in rows]), BY_NAME[metric].unit
    book = prices(con, price_usd_per_hour)
    costs = [cost.per_million_tokens(book.of(row).per_hour, row["goodput_tok_per_s"]) for row in rows]
    return _by_arm(rows, costs), unit_of_cost(metric, map(book.of, rows))


def _by_arm(rows: Sequence[Row], values: Sequence[float | None]) -> list[ArmRuns]:
    trials_of: dict[tuple[CellKey, str], list[tuple[Row, RunSample]]] = {}
    for row, value in zip(rows, values, strict=True):
        block, launch = (row["job_id"], row["repeat"], *host_of(row)), launch_of(row)
        # A repeat's 95 % interval is taken as that of a normal distribution of the logarithm, so that repeats that end
        # at the same number of requests at once do not make a ratio without a width: 8 at once are 8 to almost 9.
        high = None if row["high"] is None else row["high"] + (row["find"] == "concurrency")
        log_variance = (math.log(high / row["low"]) / 3.92) ** 2 if row["low"] and high else 0.0
        sample = RunSample(row["run_id"], row["arm"], block, value, launch=launch, log_variance=log_variance)
        trials_of.setdefault((CellKey.of(row), row["arm"]), []).append((row, sample))
    return [
        ArmRuns(
            cell=cell,
            arm=arm,
            arm_id=trials[0][0]["arm_id"],
            is_baseline=trials[0][0]["is_baseline"],
            method=trials[0][0]["method"],
            num_speculative_tokens=trials[0][0]["num_speculative_tokens"],
            category=trials[0][0]["category"],
            closed_loop=trials[0][0]["find"] == "concurrency",
            runs=tuple(sample for _, sample in trials),
        )
        for (cell, arm), trials in trials_of.items()
    ]


def study_capacities(
    con: duckdb.DuckDBPyConnection,
    study: str,
    price_usd_per_hour: float | None = None,
    utilisation: float | None = None,
) -> list[ArmCapacity]:
    """Return the capacity of each arm in each search over all repeats; costs are None without a recorded price.

    Raises QueryError for an unknown study.
    """
    rows = [row for row in dicts(con, _ROWS, [paired_runs.jobs_of(con, study)]) if row["repeat"] is None]
    book = prices(con, price_usd_per_hour, utilisation)
    return [_arm_capacity(row, book) for row in rows]


def _arm_capacity(row: Row, book: Prices) -> ArmCapacity:
    try:
        price = book.of(row)
    except QueryError:
        price = None
    capacity = None if row["capacity"] is None else Interval(row["capacity"], row["low"], row["high"])
    return ArmCapacity(
        job_id=row["job_id"],
        cell=CellKey.of(row),
        arm=row["arm"],
        is_baseline=row["is_baseline"],
        find=row["find"],
        slo_share=row["slo_share"],
        found=capacity,
        least=row["low"] if capacity is None else None,
        greatest=row["high"] if capacity is None else None,
        trials=row["trials"],
        cost=None if price is None else cost.per_million_tokens(price.per_hour, row["goodput_tok_per_s"]),
        currency=None if price is None else price.currency,
    )
