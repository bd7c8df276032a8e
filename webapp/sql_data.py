"""What the SQL page asks of the warehouse."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from warehouse import dictionary
from warehouse.database import open_warehouse
from warehouse.sandbox import as_frame, run_sql
from webapp import data
from webapp.charts import free

#: Each may have ten thousand rows.
_MOST_ANSWERS = 16


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
    return _described(data.publication())


def answered(sql: str) -> Answered:
    """What the warehouse answers to the reader's SQL. Raises QueryError with DuckDB's own words."""
    return _answered(data.publication(), sql)


@st.cache_data(show_spinner=False, max_entries=1)
def _described(publication: data.Publication) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    del publication
    with closing(open_warehouse(data.settings())) as connection:
        return dictionary.described(connection)


@st.cache_resource(show_spinner="Asking the warehouse", max_entries=_MOST_ANSWERS)
def _answered(publication: data.Publication, sql: str) -> Answered:
    del publication
    start_s = time.perf_counter()
    found = run_sql(data.settings(), sql)
    took_s = time.perf_counter() - start_s
    frame = as_frame(found.table)
    return Answered(frame, free.drawable(frame), found.left_out, took_s)
