"""The headline of each target: the cell with the best speed-up over the baseline, its interval, and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb

from lab import cost
from lab.comparison.effect import Interval
from lab.comparison.verdict import UNKNOWN, Word
from lab.cost import Price
from lab.errors import UserError
from warehouse.queries.comparing.comparisons import Pair, compare_study
from warehouse.queries.comparing.paired_runs import CellKey, Row, dicts
from warehouse.queries.prices import Prices, prices

_METRIC = "output_tok_per_s"


@dataclass(frozen=True)
class Headline:
    """The best cell of one target.

    `ratio` is of output throughput, candidate / baseline, with its 95 % interval; its bounds are None if unknown.
    `verdict` is that of the strict reading: with 95 % confidence no verdict of the study is false, this one included.
    `cells` is the number of cells it was chosen from: among many, the best one is partly luck. `hardware` is None if
    its runs used several kinds. `cost` is per million output tokens in `currency`; both are None without a price.
    """

    target: str
    job_id: str
    study_name: str
    hardware: str | None
    arm: str
    cell: CellKey
    ratio: Interval
    verdict: Word
    repeats: int
    cells: int
    output_tok_per_s: float
    measured_at: datetime
    cost: float | None
    currency: str | None


def headlines(con: duckdb.DuckDBPyConnection) -> list[Headline]:
    """One headline per target measured here with a baseline, the newest first; of valid_latest_runs.

    Cells with two or more repeats go before those with one, because a single ratio may be best by chance.
    """
    rows = dicts(con, _BEST)
    known = prices(con) if rows else None
    return [_headline(row, _pair(con, row), _price(row, known)) for row in rows]


def _headline(row: Row, pair: Pair | None, price: Price | None) -> Headline:
    per_hour = None if price is None else price.per_hour
    per_million = cost.per_million_tokens(per_hour, row["output_tok_per_s"])
    return Headline(
        cell=CellKey(row["workload"], row["pattern"], row["concurrency"]),
        ratio=(pair and pair.comparison.ratio) or Interval(row["ratio"], None, None),
        verdict=(pair.verdict if pair else UNKNOWN).word,
        cost=per_million,
        currency=None if price is None else price.currency,
        **{name: row[name] for name in _SHOWN},
    )


_SHOWN = (
    *("target", "job_id", "study_name", "hardware", "arm", "repeats", "cells", "output_tok_per_s", "measured_at"),
)


def _pair(con: duckdb.DuckDBPyConnection, row: Row) -> Pair | None:
    """This cell in the strict comparison of its whole study: the other cells moderate the interval."""
    cell = CellKey(row["workload"], row["pattern"], row["concurrency"])
    found = compare_study(con, row["job_id"], _METRIC, strict=True)
    return next((pair for pair in found.pairs if (pair.candidate.arm, pair.cell) == (row["arm"], cell)), None)


def _price(row: Row, known: Prices | None) -> Price | None:
    """None if no price is recorded, and for runs on several kinds of hardware."""
    if known is None or row["hardware"] is None:
        return None
    try:
        return known.of(row)
    except UserError:
        return None


_BEST = """
    WITH cell AS (
        SELECT job_id, study_id, study_name, target, coalesce(hardware, 'unknown hardware') AS hardware, arm, arm_id,
            coalesce(is_baseline, false) AS is_baseline, repeat, started_at, output_tok_per_s AS number,
            workload_label AS workload, pattern, concurrency
        FROM valid_latest_runs
        WHERE origin = 'measured' AND concurrency IS NOT NULL AND pattern IS NOT NULL AND output_tok_per_s > 0
    ), paired AS (
        SELECT c.*, b.number AS base_number
        FROM cell AS c JOIN cell AS b ON b.is_baseline AND NOT c.is_baseline AND b.job_id = c.job_id
            AND b.workload = c.workload AND b.pattern = c.pattern AND b.concurrency = c.concurrency
            AND b.repeat = c.repeat AND (b.arm_id = c.arm_id) IS NOT TRUE -- an identical arm is a control
    ), place AS (
        SELECT target, job_id, arm, workload, pattern, concurrency, count(*) AS repeats,
            exp(avg(ln(number / base_number))) AS ratio, max(started_at) AS measured_at
        FROM paired GROUP BY ALL
    ), best AS (
        SELECT *, count(*) OVER (PARTITION BY target) AS cells FROM place
        QUALIFY row_number() OVER (
            PARTITION BY target ORDER BY repeats >= 2 DESC, ratio DESC, measured_at DESC, arm, workload, pattern) = 1
    )
    SELECT best.*, any_value(p.study_id) AS study_id, any_value(p.study_name) AS study_name,
        CASE WHEN count(DISTINCT p.hardware) = 1 THEN any_value(p.hardware) END AS hardware,
        min(p.started_at)::DATE AS day, avg(p.number) AS output_tok_per_s
    FROM best JOIN paired AS p USING (target, job_id, arm, workload, pattern, concurrency)
    GROUP BY ALL ORDER BY measured_at DESC, target
"""
