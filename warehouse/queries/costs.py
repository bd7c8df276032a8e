"""Costs of each arm of a study in each cell, and the cheapest arm that meets the study's SLO."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import duckdb

from lab import cost
from lab.comparison.verdict import Word
from lab.cost import Price, Window
from lab.metrics.number_format import percent
from lab.study import Slo
from warehouse.queries.comparing.capacities import searched
from warehouse.queries.comparing.comparisons import Pair, compare_study
from warehouse.queries.comparing.paired_runs import CellKey, jobs_of
from warehouse.queries.prices import prices
from warehouse.queries.rows import Row, dicts

#: Each window carries a share of its engine's start, in proportion to its length. Rates are harmonic means: their cost
#: is the mean of the repeats' costs.
_RUNS = """
    WITH shared AS (
        SELECT *, engine_start_s * duration_s / sum(duration_s) OVER (
            PARTITION BY arm, host, coalesce(taken_over_from, concat(job_id, '/', launch_index))) AS start_s
        FROM valid_latest_runs WHERE list_contains(?, job_id)
    )
    SELECT workload_label AS workload, pattern, concurrency, arm, is_baseline,
        coalesce(hardware, 'unknown hardware') AS hardware, study_id, min(started_at)::DATE AS day,
        1 / avg(1 / nullif(output_tok_per_s, 0)) AS output_tok_per_s,
        1 / avg(1 / nullif(total_tok_per_s, 0)) AS total_tok_per_s,
        CASE WHEN sum(reasoning_tokens) > 0 AND count(nullif(answer_tok_per_s, 0)) = count(*)
            THEN 1 / avg(1 / nullif(answer_tok_per_s, 0)) END AS answer_tok_per_s,
        1 / avg(1 / nullif(request_per_s, 0)) AS request_per_s,
        avg(energy_j_per_output_token) AS energy_j_per_output_token,
        CASE WHEN count(start_s) = count(*) THEN sum(start_s) END AS start_s,
        CASE WHEN count(goodput_request_per_s) = count(*) THEN sum(goodput_request_per_s * duration_s) END AS good,
        CASE WHEN count(requests_completed + requests_failed) = count(*)
            THEN sum(requests_completed + requests_failed) END AS sent,
        list(duration_s) AS durations_s, list(completion_tokens) AS tokens
    FROM shared WHERE concurrency IS NOT NULL AND pattern IS NOT NULL
    GROUP BY ALL ORDER BY workload, concurrency, pattern, is_baseline DESC, arm
"""


Verdict = Literal["cheaper", "dearer", "no difference", "inconclusive", "control"]
#: The verdict on a saving by the verdict on the throughput, for arms that pay the same price for an hour.
_OF_THROUGHPUT: dict[Word, Verdict] = {
    "faster": "cheaper",
    "slower": "dearer",
    "no difference": "no difference",
    "inconclusive": "inconclusive",
    "control": "control",
}


@dataclass(frozen=True)
class ArmCost:
    """One arm in one cell, means over its repeats; amounts are in `currency`, None if unknown."""

    cell: CellKey
    arm: str
    is_baseline: bool
    hardware: str
    price_per_hour: float
    currency: str
    price_source: str
    per_million_output_tokens: float | None
    per_million_tokens: float | None
    per_request: float | None
    with_start_up: float | None  # per million output tokens, with this cell's share of the engines' starts
    kwh_per_million_output_tokens: float | None
    electricity_per_million_output_tokens: float | None
    at_peak: bool = False  # the highest throughput of this arm and workload, so the lowest cost
    saving: float | None = None  # share of the baseline's cost
    saving_low: float | None = None
    saving_high: float | None = None
    verdict: Verdict | None = None  # on the saving; None of the baseline, and without a saving
    per_million_answer_tokens: float | None = None  # None where no request reasoned, or a run reached no answer
    within_slo: float | None = None  # share of the requests that met the study's SLO; failed ones did not


def saving_words(arm_cost: ArmCost) -> str:
    """`32.3 % [-4.6, 52.0]`; a dash without a saving."""
    parts = (arm_cost.saving, arm_cost.saving_low, arm_cost.saving_high)
    return percent(*(None if share is None else 100 * share for share in parts))


def study_costs(
    con: duckdb.DuckDBPyConnection,
    study: str,
    price_usd_per_hour: float | None = None,
    utilisation: float | None = None,
) -> list[ArmCost]:
    """Return the costs of valid_latest_runs, with savings against the study's baseline.

    `price_usd_per_hour` overrides every other price, for all arms; `utilisation` is the share of paid hours in which
    the hardware works. Empty for a study that only searches for capacities. Raises QueryError for an unknown study,
    UnknownPriceError for hardware without a recorded price.
    """
    jobs = jobs_of(con, study)
    costs = costs_without_savings(con, jobs, price_usd_per_hour, utilisation)
    if not costs and searched(con, jobs):
        return []
    compared = compare_study(con, study)
    base = {arm_cost.cell: arm_cost for arm_cost in costs if arm_cost.arm == compared.baseline}
    pairs = {(pair.cell, pair.candidate.arm): pair for pair in compared.pairs}
    return [
        _with_saving(arm_cost, base.get(arm_cost.cell), pairs.get((arm_cost.cell, arm_cost.arm))) for arm_cost in costs
    ]


def costs_without_savings(
    con: duckdb.DuckDBPyConnection,
    jobs: Sequence[str],
    price_usd_per_hour: float | None = None,
    utilisation: float | None = None,
) -> list[ArmCost]:
    """Return `study_costs` without the comparison. Raises UnknownPriceError."""
    priced = prices(con, price_usd_per_hour, utilisation)
    return _with_peaks([_cost(row, priced.of(row)) for row in dicts(con, _RUNS, [list(jobs)])])


def _cost(row: Row, price: Price) -> ArmCost:
    per_hour, energy_j = price.per_hour, row["energy_j_per_output_token"]
    is_known = None not in (*row["durations_s"], *row["tokens"])
    windows = map(Window, row["durations_s"], row["tokens"]) if is_known else ()
    return ArmCost(
        cell=CellKey.of(row),
        arm=row["arm"],
        is_baseline=bool(row["is_baseline"]),
        hardware=row["hardware"],
        price_per_hour=per_hour,
        currency=price.currency,
        price_source=price.source,
        per_million_output_tokens=cost.per_million_tokens(per_hour, row["output_tok_per_s"]),
        per_million_answer_tokens=cost.per_million_tokens(per_hour, row["answer_tok_per_s"]),
        per_million_tokens=cost.per_million_tokens(per_hour, row["total_tok_per_s"]),
        per_request=cost.per_request(per_hour, row["request_per_s"]),
        with_start_up=cost.per_million_with_start_up(per_hour, row["start_s"], windows),
        kwh_per_million_output_tokens=cost.kwh_per_million_tokens(energy_j),
        electricity_per_million_output_tokens=cost.electricity_per_million_tokens(energy_j, price.electricity_per_kwh),
        within_slo=row["good"] / row["sent"] if row["good"] is not None and row["sent"] else None,
    )


def _with_peaks(costs: list[ArmCost]) -> list[ArmCost]:
    """Mark the cheapest load of each arm and workload, the first among equals; loads of unknown cost never."""
    peaks: dict[tuple[str, str], ArmCost] = {}
    for arm_cost in sorted(costs, key=lambda arm_cost: arm_cost.per_million_output_tokens or math.inf):
        if arm_cost.per_million_output_tokens is not None:
            peaks.setdefault((arm_cost.arm, arm_cost.cell.workload), arm_cost)
    return [replace(arm_cost, at_peak=any(arm_cost is peak for peak in peaks.values())) for arm_cost in costs]


def _with_saving(arm_cost: ArmCost, base: ArmCost | None, pair: Pair | None) -> ArmCost:
    """Add the saving against the baseline, unless the two prices are in different currencies."""
    ratio = None if pair is None else pair.ratio
    if base is None or pair is None or ratio is None or base.currency != arm_cost.currency:
        return arm_cost
    prices = arm_cost.price_per_hour / base.price_per_hour
    low, high = (None if bound is None else cost.saving(bound, prices) for bound in (ratio.low, ratio.high))
    verdict = _OF_THROUGHPUT[pair.verdict.word] if prices == 1 else _verdict(low, high)
    saving = cost.saving(ratio.value, prices)
    return replace(arm_cost, saving=saving, saving_low=low, saving_high=high, verdict=verdict)


def _verdict(low: float | None, high: float | None) -> Verdict:
    """Return the verdict from the saving's interval, for arms that pay different prices for an hour."""
    if low is not None and low > 0:
        return "cheaper"
    return "dearer" if high is not None and high < 0 else "inconclusive"


#: An arm meets the SLO if at least this share of its requests did.
SLO_SHARE = 0.99
#: Rounding error of a share of requests.
_TINY = 1e-9
_SLO = "SELECT any_value(slo_json) FROM runs WHERE job_id IN (SELECT unnest(?)) AND slo_json IS NOT NULL"


def slo_of(con: duckdb.DuckDBPyConnection, study: str) -> Slo | None:
    """Return the study's SLO, or None if it has no bounds. Raises QueryError for an unknown study."""
    ((text,),) = con.execute(_SLO, [jobs_of(con, study)]).fetchall()
    slo = Slo() if text is None else Slo.model_construct(**json.loads(text))
    return None if slo == Slo() else slo


def meets_slo(arm_cost: ArmCost, least_share: float = SLO_SHARE) -> bool | None:
    """Return whether at least this share of its requests met every bound; None if unknown."""
    return None if arm_cost.within_slo is None else arm_cost.within_slo >= least_share - _TINY


def cheapest(costs: Sequence[ArmCost], least_share: float = SLO_SHARE) -> dict[str, ArmCost | None]:
    """Return by workload the arm and load with the lowest cost per million output tokens that meet the SLO.

    None if no arm meets it, and for every workload if costs are in several currencies.
    """
    cheapest_of: dict[str, ArmCost | None] = {arm_cost.cell.workload: None for arm_cost in costs}
    if len({arm_cost.currency for arm_cost in costs}) > 1:
        return cheapest_of
    for arm_cost in sorted(costs, key=lambda arm_cost: arm_cost.per_million_output_tokens or 0.0, reverse=True):
        if arm_cost.per_million_output_tokens is not None and meets_slo(arm_cost, least_share):
            cheapest_of[arm_cost.cell.workload] = arm_cost
    return cheapest_of
