"""What the Explore page reads from the warehouse."""

from __future__ import annotations

import duckdb
import pandas as pd

from warehouse.queries import slices
from warehouse.queries.slices import Filters
from webapp.charts.explore.axes import Order
from webapp.shared import published_data
from webapp.shared.published_data import published_query, with_warehouse

#: Each may have some thousand rows.
_MAX_SLICES = 32
_MAX_POOLS = 16

#: dimension, value, runs, begun.
options = published_query(1)(slices.options)
runs = published_query(_MAX_SLICES)(slices.runs)
filters_excluding_everything = with_warehouse(slices.filters_excluding_everything)
_arms = published_query(_MAX_SLICES)(slices.arms)


@published_query(_MAX_POOLS)
def pooled(
    connection: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Counts by bucket, and runs, of each group."""
    return slices.pooled(connection, filters, latency, by), slices.pooled_runs(connection, filters, latency, by)


def order(job_id: str) -> Order:
    """The arms of a job in its study's own order, where this host knows it."""
    arms_of_job = _arms(job_id)
    baselines = arms_of_job.loc[arms_of_job["is_baseline"] == True, "arm"]  # noqa: E712 - null is unknown
    arms = dict.fromkeys([*published_data.arms(job_id), *arms_of_job["arm"]])
    return Order(tuple(arms), None if baselines.empty else str(baselines.iloc[0]))
