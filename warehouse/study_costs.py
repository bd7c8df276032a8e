"""What each arm of a study costs at each place, by the study's own price or by the price book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import duckdb

from lab import cost
from lab.comparison.effect import Interval
from lab.cost import Price, Window
from lab.errors import QueryError
from warehouse.comparisons import compare_study
from warehouse.price_book import price_from
from warehouse.samples import COUNTING, Place, Row, dicts, jobs_of

_RUNS = (
    f"WITH counting AS ({COUNTING})"  # noqa: S608 - no user's text is in it
    """
    SELECT coalesce(workload, concat_ws('/', dataset, category, requested_output_tokens)) AS workload, pattern,
        concurrency, arm, is_baseline, coalesce(hardware, 'unknown hardware') AS hardware, study_id,
        min(started_at)::DATE AS day,
        avg(output_tok_per_s) AS output_tok_per_s, avg(total_tok_per_s) AS total_tok_per_s,
        avg(request_per_s) AS request_per_s, avg(energy_j_per_output_token) AS energy_j_per_output_token,
        max(engine_start_s) AS engine_start_s, list(duration_s) AS durations_s, list(completion_tokens) AS tokens
    FROM counting WHERE job_id IN (SELECT unnest(?)) AND concurrency IS NOT NULL AND pattern IS NOT NULL
    GROUP BY ALL ORDER BY workload, concurrency, pattern, is_baseline DESC, arm
    """
)
_STUDY_PRICES = """
    SELECT study_id, json_extract(json, '$.price_usd_per_hour')::DOUBLE AS price FROM studies WHERE price IS NOT NULL
"""
_BOOK = "SELECT * EXCLUDE (price_id, added_at, withdrawn_at) FROM prices WHERE withdrawn_at IS NULL ORDER BY price_id"


@dataclass(frozen=True)
class ArmCost:
    """One arm at one place, means over its repeats; amounts are in `currency`. None where something is unknown."""

    place: Place
    arm: str
    hardware: str
    price_per_hour: float
    currency: str
    price_source: str
    per_million_output_tokens: float | None
    per_million_tokens: float | None
    per_request: float | None
    with_start_up: float | None  # per million output tokens, of the benchmark itself
    kwh_per_million_output_tokens: float | None
    electricity_per_million_output_tokens: float | None
    saving: float | None = None  # share of the baseline's cost
    saving_low: float | None = None
    saving_high: float | None = None


def study_costs(con: duckdb.DuckDBPyConnection, study: str, price_usd_per_hour: float | None = None) -> list[ArmCost]:
    """Of valid runs, beside the study's baseline. `price_usd_per_hour` replaces every other price, and is for all arms.

    Raises QueryError for a study that is not there, and for hardware whose price nobody knows.
    """
    jobs = jobs_of(con, study)
    priced = _Prices(
        price_usd_per_hour,
        {row["study_id"]: row["price"] for row in dicts(con, _STUDY_PRICES)},
        [price_from(row) for row in dicts(con, _BOOK)],
    )
    found = [_cost(row, priced.of(row)) for row in dicts(con, _RUNS, [jobs])]
    compared = compare_study(con, study)
    base = {each.place: each for each in found if each.arm == compared.baseline}
    ratios = {(pair.place, pair.candidate.arm): pair.comparison.ratio for pair in compared.pairs}
    return [_with_saving(each, base.get(each.place), ratios.get((each.place, each.arm))) for each in found]


@dataclass(frozen=True)
class _Prices:
    """Where a price may come from, the first that knows one wins."""

    asked: float | None
    by_study: Mapping[str, float]
    book: Sequence[Price]

    def of(self, row: Row) -> Price:
        hardware, day = row["hardware"], row["day"]
        if self.asked is not None:
            return _in_usd(row, self.asked, "as asked for")
        if row["study_id"] in self.by_study:
            return _in_usd(row, self.by_study[row["study_id"]], "the study's own price_usd_per_hour")
        if day is None or (price := cost.price_on(self.book, hardware, day)) is None:
            raise QueryError(
                f"nobody knows the price of {hardware!r} on {day or 'an unknown day'}: add it to the price book with "
                "`drafthouse prices add`, or say it with --price-per-hour"
            )
        return price


def _in_usd(row: Row, per_hour: float, source: str) -> Price:
    """Raises UserError for a price that is not above 0."""
    about = {"hardware": row["hardware"], "valid_from": row["day"] or date.min, "currency": "USD", "source": source}
    return price_from(about | {"rented_per_hour": per_hour})


def _cost(row: Row, price: Price) -> ArmCost:
    per_hour, energy_j = price.per_hour, row["energy_j_per_output_token"]
    windows = [Window(s, n) for s, n in zip(row["durations_s"], row["tokens"], strict=True) if s and n]
    return ArmCost(
        place=Place(row["workload"], row["pattern"], row["concurrency"]),
        arm=row["arm"],
        hardware=row["hardware"],
        price_per_hour=per_hour,
        currency=price.currency,
        price_source=price.source,
        per_million_output_tokens=cost.per_million_tokens(per_hour, row["output_tok_per_s"]),
        per_million_tokens=cost.per_million_tokens(per_hour, row["total_tok_per_s"]),
        per_request=cost.per_request(per_hour, row["request_per_s"]),
        with_start_up=cost.per_million_with_start_up(per_hour, row["engine_start_s"], windows),
        kwh_per_million_output_tokens=cost.kwh_per_million_tokens(energy_j),
        electricity_per_million_output_tokens=cost.electricity_per_million_tokens(energy_j, price.electricity_per_kwh),
    )


def _with_saving(each: ArmCost, base: ArmCost | None, ratio: Interval | None) -> ArmCost:
    """Money of two currencies is not compared."""
    if base is None or ratio is None or base.currency != each.currency:
        return each
    prices = each.price_per_hour / base.price_per_hour
    low, high = (None if bound is None else cost.saving(bound, prices) for bound in (ratio.low, ratio.high))
    return replace(each, saving=cost.saving(ratio.value, prices), saving_low=low, saving_high=high)
