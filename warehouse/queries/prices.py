"""Prices of the hardware that runs used, and costs as metrics of single runs, which comparisons read like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import duckdb
import numpy as np

from lab import cost
from lab.comparison.samples import RunSample
from lab.cost import Price
from lab.errors import QueryError, UnknownPriceError
from lab.metrics.catalogue import BY_NAME
from warehouse.app_db.price_book import price_from
from warehouse.queries.comparing import paired_runs
from warehouse.queries.comparing.paired_runs import ArmRuns
from warehouse.queries.rows import Row, dicts

_STUDY_PRICES = """
    SELECT study_id, json_extract(json, '$.price_usd_per_hour')::DOUBLE AS price FROM studies WHERE price IS NOT NULL
"""
_BOOK = "SELECT * EXCLUDE (price_id, added_at, withdrawn_at) FROM prices WHERE withdrawn_at IS NULL ORDER BY price_id"


@dataclass(frozen=True)
class Prices:
    """Sources of a price: the first that has one wins."""

    override: float | None
    by_study: Mapping[str, float]
    book: Sequence[Price]
    utilisation: float | None = None  # share of the hours in which the hardware works; None: as in the price

    def of(self, row: Row) -> Price:
        """Return the price of runs by hardware, study_id and day. Raises UnknownPriceError if none is recorded."""
        price = self._known(row)
        return price if self.utilisation is None else price.at(self.utilisation)

    def _known(self, row: Row) -> Price:
        hardware, day = row["hardware"], row["day"]
        if self.override is not None:
            return _in_usd(row, self.override, "not in the price book")
        if row["study_id"] in self.by_study:
            return _in_usd(row, self.by_study[row["study_id"]], "the study's own price_usd_per_hour")
        if day is None or (price := cost.price_on(self.book, hardware, day)) is None:
            raise UnknownPriceError(hardware, day)
        return price


def prices(
    con: duckdb.DuckDBPyConnection, price_usd_per_hour: float | None = None, utilisation: float | None = None
) -> Prices:
    """Read all prices. `price_usd_per_hour` overrides them for all arms; `utilisation` as `Price.at` takes it."""
    return Prices(
        price_usd_per_hour,
        {row["study_id"]: row["price"] for row in dicts(con, _STUDY_PRICES)},
        [price_from(row) for row in dicts(con, _BOOK)],
        utilisation,
    )


def _in_usd(row: Row, per_hour: float, source: str) -> Price:
    """Return a price in USD. Raises UserError unless it is above 0."""
    about = {"hardware": row["hardware"], "valid_from": row["day"] or date.min, "currency": "USD", "source": source}
    return price_from(about | {"rented_per_hour": per_hour})


Formula = Callable[[float | None, float | None], float | None]


@dataclass(frozen=True)
class Cost:
    """A cost computed from the price per hour and `rate`, a metric of the run."""

    rate: str
    formula: Formula


COSTS: Mapping[str, Cost] = {
    "cost_per_million_output_tokens": Cost("output_tok_per_s", cost.per_million_tokens),
    "cost_per_million_answer_tokens": Cost("answer_tok_per_s", cost.per_million_tokens),
    "cost_per_million_tokens": Cost("total_tok_per_s", cost.per_million_tokens),
    "cost_per_million_output_tokens_within_slo": Cost("goodput_tok_per_s", cost.per_million_tokens),
    "cost_per_request": Cost("request_per_s", cost.per_request),
}
_RUNS = """
    SELECT run_id, coalesce(hardware, 'unknown hardware') AS hardware, study_id, started_at::DATE AS day
    FROM runs WHERE job_id IN (SELECT unnest(?))
"""


def arm_costs(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, price_usd_per_hour: float | None
) -> tuple[list[ArmRuns], str]:
    """`paired_runs.arm_runs` with the cost of each run as its number, and the cost's unit.

    Raises QueryError for hardware without a recorded price, and for prices in several currencies.
    """
    book = prices(con, price_usd_per_hour)
    arms = paired_runs.arm_runs(con, jobs, COSTS[metric].rate)
    counting = {run.run_id for arm in arms for run in arm.runs}
    by_run = {row["run_id"]: book.of(row) for row in dicts(con, _RUNS, [list(jobs)]) if row["run_id"] in counting}
    costing = [
        replace(arm, runs=tuple(_costing(run, by_run[run.run_id].per_hour, COSTS[metric].formula) for run in arm.runs))
        for arm in arms
    ]
    return costing, unit_of_cost(metric, by_run.values())


def _costing(run: RunSample, per_hour: float, formula: Formula) -> RunSample:
    """Return the run, and its rounds, with the cost in place of the rate."""
    rounds = run.rounds
    if rounds is not None:  # an unknown rate is NaN, and so is its cost
        rounds = np.array([formula(per_hour, rate) for rate in rounds.tolist()], dtype=np.float64)
    return replace(run, value=formula(per_hour, run.value), rounds=rounds)


def unit_of_cost(metric: str, priced: Iterable[Price]) -> str:
    """Return the unit of a cost at these prices. Raises QueryError if they are in several currencies."""
    currencies = sorted({price.currency for price in priced})
    if len(currencies) > 1:
        raise QueryError(
            f"prices in {' and '.join(currencies)} cannot be compared: give one price with --price-per-hour"
        )
    return BY_NAME[metric].unit.replace("currency", "".join(currencies))
