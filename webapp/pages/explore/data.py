"""The data of the Explore page, read from the warehouse."""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb
import pandas as pd

from lab.metrics.number_format import ratio
from warehouse.queries import slices
from warehouse.queries.comparing.comparisons import Pair
from warehouse.queries.results import slowest_prompts as slowest
from warehouse.queries.slices import Filters
from webapp.charts.explore.axes import Order
from webapp.shared import published_data
from webapp.shared.published_data import published_query, with_warehouse
from webapp.shared.verdicts import arm_cards
from webapp.shared.verdicts.tables import SIGNS

#: Cached tables; each may have some thousand rows.
_MAX_SLICES = 32
_MAX_POOLS = 16

#: dimension, value, runs, begun.
options = published_query(_MAX_SLICES)(slices.options)
speedups_of_others = published_query()(slices.speedups_of_others)
runs = published_query(_MAX_SLICES)(slices.runs)
filters_excluding_everything = with_warehouse(slices.filters_excluding_everything)
_arms = published_query(_MAX_SLICES)(slices.arms)
acceptance = published_query(_MAX_SLICES)(slices.acceptance)
slowest_prompts = published_query(_MAX_SLICES)(slowest)


@dataclass(frozen=True)
class Judged:
    """The verdict on an arm in one cell, with its ratio and interval, in words and numbers."""

    words: str
    ratio: float | None
    low: float | None
    high: float | None


def judged(job_id: str, metric: str) -> dict[tuple[str, str, str], Judged]:
    """Return verdicts by arm, workload and load; none if the metric has no better direction or the baseline no valid
    run.
    """
    compared = published_data.comparison(job_id, metric)
    pairs = () if compared is None else compared.pairs
    return {_cell(pair): _judged(pair) for pair in pairs}


def _cell(pair: Pair) -> tuple[str, str, str]:
    return pair.candidate.arm, pair.cell.workload, pair.cell.pattern


def verdicts_of_arms(job_id: str, metric: str, cells: frozenset[tuple[str, str, str]]) -> dict[str, str]:
    """Return each arm's verdict over its cells among these, like `▲ faster 1.23× [1.20, 1.26]`.

    `cells`: arm, workload and load of each.
    """
    compared = published_data.comparison(job_id, metric)
    if compared is not None:
        within = (pair for pair in compared.pairs if _cell(pair) in cells)
        compared = replace(compared, pairs=tuple(within))
    means = {} if compared is None else arm_cards.means(compared)
    return {
        arm: f"{SIGNS[mean.verdict.word]} {ratio(mean.ratio.value, mean.ratio.low, mean.ratio.high)}"
        for arm, mean in means.items()
        if mean.ratio is not None
    }


def _judged(pair: Pair) -> Judged:
    within, sign = pair.ratio, SIGNS[pair.verdict.word]
    if within is None:
        return Judged(sign, None, None, None)
    bounds = (within.value, within.low, within.high)
    return Judged(f"{sign} {ratio(*bounds)}", *bounds)


@published_query(_MAX_POOLS)
def pooled(
    connection: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return each group's counts by bucket and its number of runs."""
    return slices.pooled(connection, filters, latency, by), slices.pooled_runs(connection, filters, latency, by)


def order(job_id: str) -> Order:
    """Return a job's arms, in its study's order if this host has the study."""
    arms_of_job = _arms(job_id)
    baselines = arms_of_job.loc[arms_of_job["is_baseline"] == True, "arm"]  # noqa: E712 - null is unknown
    arms = dict.fromkeys([*published_data.arms(job_id), *arms_of_job["arm"]])
    drafting = {**published_data.drafting(), **published_data.arms(job_id)}
    return Order(tuple(arms), None if baselines.empty else str(baselines.iloc[0]), drafting)
