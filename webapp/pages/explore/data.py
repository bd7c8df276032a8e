"""What the Explore page asks of the warehouse; answers are kept until the next publication."""

from __future__ import annotations

from contextlib import closing

import pandas as pd
import streamlit as st

from warehouse.database import open_warehouse
from warehouse.queries import slices
from warehouse.queries.slice_filters import Filters
from webapp.charts.explore.series import Order
from webapp.shared import published_data
from webapp.shared.cached_frames import kept_frame

#: Each may have some thousand rows.
_MOST_SLICES = 32
_MOST_POOLS = 16


def options() -> pd.DataFrame:
    """dimension, value, runs, begun."""
    return _options(published_data.publication())


def runs(filters: Filters, numbers: tuple[str, ...]) -> pd.DataFrame:
    return _runs(published_data.publication(), filters, numbers)


def pooled(filters: Filters, latency: str, by: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Counts by bucket, and runs, of each group."""
    return _pooled(published_data.publication(), filters, latency, by)


def to_blame(filters: Filters) -> list[tuple[str, int]]:
    with closing(open_warehouse(published_data.settings())) as connection:
        return slices.to_blame(connection, filters)


def order(job_id: str) -> Order:
    """The arms of a job in its study's own order, where this host knows it."""
    found = _arms(published_data.publication(), job_id)
    baselines = found.loc[found["is_baseline"] == True, "arm"]  # noqa: E712 - null is unknown
    arms = dict.fromkeys([*published_data.arms(job_id), *found["arm"]])
    return Order(tuple(arms), None if baselines.empty else str(baselines.iloc[0]))


@kept_frame(1)
def _options(publication: published_data.Publication) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return slices.options(connection)


@kept_frame(_MOST_SLICES)
def _runs(publication: published_data.Publication, filters: Filters, numbers: tuple[str, ...]) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return slices.runs(connection, filters, numbers)


@st.cache_resource(show_spinner=False, max_entries=_MOST_POOLS)
def _pooled(
    publication: published_data.Publication, filters: Filters, latency: str, by: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return (
            slices.pooled(connection, filters, latency, by),
            slices.pooled_runs(connection, filters, latency, by),
        )


@kept_frame(_MOST_SLICES)
def _arms(publication: published_data.Publication, job_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return slices.arms(connection, job_id)
