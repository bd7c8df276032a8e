"""What the SQL page asks of the warehouse."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from lab.errors import QueryError
from warehouse.queries.connect import open_warehouse
from warehouse.sandbox.runner import SqlResult, as_frame, run_sql
from warehouse.schema import dictionary
from warehouse.settings import Settings
from webapp.charts import custom
from webapp.shared import published_data
from webapp.shared.text import count

#: Each may have ten thousand rows.
_MOST_ANSWERS = 16
#: Processes that answer at once. Each may take a whole core, and `settings.sql_memory_mib`.
MOST_AT_ONCE = max(2, os.cpu_count() or 2)
PLACES = threading.BoundedSemaphore(MOST_AT_ONCE)


@dataclass(frozen=True)
class Answered:
    """The answer to a reader's SQL, shared by all visitors: nobody may change it.

    `drawable` are the columns that a chart may have, and `left_out` says in a sentence that there are more rows.
    """

    frame: pd.DataFrame
    drawable: list[str]
    left_out: str
    took_s: float


def described() -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """The warehouse's tables and their columns, views first."""
    return _described(published_data.publication())


def answered(sql: str) -> Answered:
    """What the warehouse answers to the reader's SQL. Raises QueryError with DuckDB's own words."""
    return _answered(published_data.publication(), sql)


@st.cache_data(show_spinner=False, max_entries=1)
def _described(publication: published_data.Publication) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    del publication
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        return dictionary.relations(connection)


@st.cache_resource(show_spinner="Asking the warehouse", max_entries=_MOST_ANSWERS)
def _answered(publication: published_data.Publication, sql: str) -> Answered:
    del publication
    found, took_s = _asked(published_data.settings(), sql)
    frame = as_frame(found.table)
    return Answered(frame, custom.drawable(frame), found.left_out, took_s)


def _asked(settings: Settings, sql: str) -> tuple[SqlResult, float]:
    """The answer, and how many seconds it took.

    Raises QueryError as `run_sql` does, and where others' questions have all the places for too long.
    """
    if not PLACES.acquire(timeout=settings.sql_timeout_s):
        raise QueryError(f"{count(MOST_AT_ONCE, 'other question')} are being answered: ask again in a moment")
    try:
        start_s = time.perf_counter()
        return run_sql(settings, sql), time.perf_counter() - start_s
    finally:
        PLACES.release()
