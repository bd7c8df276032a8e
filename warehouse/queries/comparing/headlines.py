"""The headline of each target: its newest study's result for one arm over all cells, then in its best cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from lab.comparison.effect import Interval
from lab.comparison.verdict import Judged, Word
from lab.errors import UserError
from warehouse.queries.comparing.comparisons import Pair, StudyComparison, compare_study
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.costs import costs_without_savings
from warehouse.queries.rows import Row, dicts

_METRIC = "output_tok_per_s"


@dataclass(frozen=True)
class ArmHeadline:
    """One arm of a study: `mean` is the geometric mean of its ratios over all cells, `best` its best single cell.

    Both have intervals. `best` was chosen among `cells`, and so is partly luck; None if no cell has an interval. `cost`
    is per million output tokens in that cell, in `currency`; both are None without a price.
    """

    arm: str
    mean: Interval
    verdict: Word
    best: Pair | None
    cells: int
    cost: float | None
    currency: str | None


@dataclass(frozen=True)
class Headline:
    """The newest study of a target, with the arm that is surest to be faster over all cells, of `arms` candidates.

    `arm` is None while no arm has an interval: the greatest of several ratios measured once proves nothing.
    `hardware` is None if its runs used several kinds. The verdict is that of the study's own table (at most 5 % of its
    calls are false on average), as in the study's answer.
    """

    target: str
    job_id: str
    study_name: str
    hardware: str | None
    measured_at: datetime
    arms: int
    arm: ArmHeadline | None


def headlines(con: duckdb.DuckDBPyConnection) -> list[Headline]:
    """Return one headline per target measured here with a baseline, from valid_latest_runs, the newest first."""
    all_headlines = [_headline(con, row) for row in dicts(con, _NEWEST)]
    return [headline for headline in all_headlines if headline.arms]


def _headline(con: duckdb.DuckDBPyConnection, row: Row) -> Headline:
    comparison = compare_study(con, row["job_id"], _METRIC)
    means = {arm: mean for arm, mean in arm_means(comparison).items() if not mean.comparison.control}
    return Headline(**row, arms=len(means), arm=_arm(con, comparison, means))


def _arm(con: duckdb.DuckDBPyConnection, comparison: StudyComparison, means: dict[str, Judged]) -> ArmHeadline | None:
    ratios = {arm: mean.ratio for arm, mean in means.items() if mean.ratio is not None and mean.ratio.low is not None}
    if not ratios:
        return None
    arm = max(ratios, key=lambda name: ratios[name].low or 0.0)
    pairs = [pair for pair in comparison.pairs if pair.candidate.arm == arm]
    sure = [(pair.ratio.low, pair) for pair in pairs if pair.ratio is not None and pair.ratio.low is not None]
    best = max(sure, key=lambda bounded: bounded[0])[1] if sure else None
    cost, currency = (None, None) if best is None else _cost(con, comparison.jobs, best)
    return ArmHeadline(arm, ratios[arm], means[arm].verdict.word, best, len(pairs), cost, currency)


def _cost(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], pair: Pair) -> tuple[float | None, str | None]:
    try:
        costs = costs_without_savings(con, jobs)
    except UserError:  # no price is recorded
        return None, None
    here = next(arm_cost for arm_cost in costs if (arm_cost.cell, arm_cost.arm) == (pair.cell, pair.candidate.arm))
    return here.per_million_output_tokens, here.currency


#: A study that is still being measured comes after one that has ended.
_NEWEST = """
    SELECT r.target, r.job_id, any_value(r.study_name) AS study_name,
        CASE WHEN count(DISTINCT coalesce(r.hardware, '')) = 1 THEN any_value(r.hardware) END AS hardware,
        max(r.started_at) AS measured_at
    FROM valid_latest_runs AS r LEFT JOIN jobs AS j USING (job_id)
    WHERE r.origin = 'measured' AND r.concurrency IS NOT NULL AND r.pattern IS NOT NULL AND r.output_tok_per_s > 0
    GROUP BY r.target, r.job_id HAVING bool_or(r.is_baseline) AND bool_or(NOT r.is_baseline)
    QUALIFY row_number() OVER (
        PARTITION BY r.target
        ORDER BY coalesce(any_value(j.state) IN ('queued', 'running'), false), measured_at DESC, r.job_id DESC) = 1
    ORDER BY measured_at DESC, r.target
"""
