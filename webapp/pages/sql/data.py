"""What the SQL page reads: the answers to a reader's SQL, and the description of the warehouse's tables."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

import pandas as pd

from lab.errors import QueryError
from warehouse.sandbox.runner import SqlResult, as_frame, run_sql
from warehouse.schema.dictionary import relations
from warehouse.settings import Settings
from webapp.charts import custom
from webapp.shared import published_data
from webapp.shared.published_data import cached_by_publication, published_query
from webapp.shared.text import count

#: Each may have ten thousand rows.
_MAX_ANSWERS = 16
#: How many queries may run at once: each is a process that may use a whole core and `settings.sql_memory_mib`.
MAX_CONCURRENT = max(2, os.cpu_count() or 2)
SLOTS = threading.BoundedSemaphore(MAX_CONCURRENT)


@dataclass(frozen=True)
class Answer:
    """The answer to a reader's SQL, shared by all visitors and therefore never to be changed.

    `drawable`: the columns a chart can use. `left_out`: a sentence if there are more rows than these.
    """

    frame: pd.DataFrame
    drawable: list[str]
    left_out: str
    duration_s: float


#: The warehouse's tables and their columns, views first.
tables = published_query(1)(relations)


@cached_by_publication(_MAX_ANSWERS, spinner="Running the query")
def answer(sql: str) -> Answer:
    """Run the reader's SQL on the warehouse. Raises QueryError with DuckDB's message."""
    result, duration_s = _run(published_data.settings(), sql)
    frame = as_frame(result.table)
    return Answer(frame, custom.drawable(frame), result.left_out, duration_s)


def _run(settings: Settings, sql: str) -> tuple[SqlResult, float]:
    """The result, and how many seconds it took.

    Raises QueryError as `run_sql` does, or if all slots stay taken by other queries for too long.
    """
    if not SLOTS.acquire(timeout=settings.sql_timeout_s):
        raise QueryError(f"{count(MAX_CONCURRENT, 'other query', 'other queries')} are running: try again in a moment")
    try:
        start_s = time.perf_counter()
        return run_sql(settings, sql), time.perf_counter() - start_s
    finally:
        SLOTS.release()
