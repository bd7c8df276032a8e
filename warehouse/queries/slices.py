"""Any slice of the runs, whatever their study and origin, on a connection of `open_warehouse`."""

# ruff: noqa: S608 - no user's text is in this SQL
from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import duckdb
import pandas as pd

from lab.cost import Price
from lab.errors import QueryError
from lab.metrics.catalogue import LATENCIES
from warehouse.queries import cost_metrics
from warehouse.queries.prices import Prices, prices
from warehouse.queries.results import COMPARABLE, frame
from warehouse.queries.slice_filters import DIMENSIONS, UNKNOWN, Filters, selected, where

#: Numbers of a run that follow from its metrics, as SQL over `results`.
DERIVED: dict[str, str] = {
    "tok_per_s_per_user": "1000 / nullif(tpot_p50_ms, 0)",
    "tok_per_s_per_gpu": "output_tok_per_s / nullif(len(gpus), 0)",
}
#: What `runs` can give as numbers.
NUMBERS: tuple[str, ...] = (*COMPARABLE, *DERIVED, *cost_metrics.COSTS)
#: Whose figures a run's are: the source that published it, the tool whose file was imported, or this Drafthouse.
_SOURCE = """CASE origin WHEN 'published' THEN regexp_replace(job_id, '^published-', '')
    WHEN 'imported' THEN concat_ws(' ', tool, tool_version) ELSE 'Drafthouse' END"""


def options(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """dimension, value, runs (completed ones that have it), begun (of the newest of them, null where none tells)."""
    parts = " UNION ALL ".join(
        f"SELECT '{name}' AS dimension, {name} AS value, count(*) AS runs, max(begun) AS begun FROM each GROUP BY ALL"
        for name in DIMENSIONS
    )
    return frame(
        con,
        f"""
        WITH each AS MATERIALIZED (
            SELECT {selected(DIMENSIONS)}, started_at AS begun FROM results WHERE status = 'completed'
        ) {parts} ORDER BY ALL
        """,
    )


def runs(con: duckdb.DuckDBPyConnection, filters: Filters, numbers: Sequence[str]) -> pd.DataFrame:
    """One row a run, oldest first: run_id, job_id, study_name, is_baseline, is_valid, repeat, started_at, source, gpus
    (how many), each of DIMENSIONS, and the `numbers` in the units of their metrics.

    A cost has its `currency` (null without a price) beside it. Raises QueryError for a number that is not of NUMBERS.
    """
    if lost := [name for name in numbers if name not in NUMBERS]:
        raise QueryError(f"{', '.join(lost)}: no number of a run")
    costs = [name for name in numbers if name in cost_metrics.COSTS]
    wanted = dict.fromkeys([*(name for name in numbers if name not in costs), *map(_rate, costs)])
    condition, parameters = where(filters)
    measured = ", ".join(f'{DERIVED.get(name, f"results.{name}")} AS "{name}"' for name in wanted)
    found = frame(
        con,
        f"""
        SELECT run_id, job_id, study_name, study_id, is_baseline, is_valid, repeat, started_at, {_SOURCE} AS source,
            len(results.gpus) AS gpus, {selected(DIMENSIONS)}{", " if measured else ""}{measured}
        FROM results WHERE {condition} ORDER BY started_at NULLS FIRST, run_id
        """,
        parameters,
    )
    return _with_costs(con, found, costs).drop(columns="study_id")


def count(con: duckdb.DuckDBPyConnection, filters: Filters) -> int:
    """How many runs there are."""
    condition, parameters = where(filters)
    found = con.execute(f"SELECT count(*) FROM results WHERE {condition}", parameters).fetchone()
    return int(found[0]) if found else 0


def to_blame(con: duckdb.DuckDBPyConnection, filters: Filters) -> list[tuple[str, int]]:
    """Where nothing matches: each filter without which something would, and how many runs."""
    found = [(name, count(con, filters.without(name))) for name in filters.active]
    return [(name, runs) for name, runs in found if runs]


def pooled(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by` (of DIMENSIONS), bucket, count: histograms of one of `LATENCIES`, all runs of a group together.

    Percentiles of it: `lab.metrics.histogram.quantile`. Runs without single requests (published, some imported) are
    left out.
    """
    condition, parameters = where(filters)
    return frame(
        con,
        f"""
        WITH chosen AS MATERIALIZED (SELECT run_id, {selected(by)} FROM results WHERE {condition})
        SELECT {", ".join(by)}, bucket, sum(count)::BIGINT AS count
        FROM histograms JOIN chosen USING (run_id) WHERE metric = ? GROUP BY ALL ORDER BY ALL
        """,
        [*parameters, _known(latency)],
    )


def pooled_runs(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by`, runs: how many runs each group of `pooled` has."""
    condition, parameters = where(filters)
    return frame(
        con,
        f"""
        WITH chosen AS MATERIALIZED (SELECT run_id, {selected(by)} FROM results WHERE {condition})
        SELECT {", ".join(by)}, count(*) AS runs FROM chosen
        WHERE run_id IN (SELECT run_id FROM histograms WHERE metric = ?) GROUP BY ALL ORDER BY ALL
        """,
        [*parameters, _known(latency)],
    )


def arms(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """arm, is_baseline (null where nobody says) of a job's runs, the baseline first."""
    return frame(
        con,
        """
        SELECT arm, bool_or(is_baseline) AS is_baseline FROM results WHERE job_id = ?
        GROUP BY arm ORDER BY is_baseline DESC NULLS LAST, arm
        """,
        [job_id],
    )


def _known(latency: str) -> str:
    if latency not in LATENCIES:
        raise QueryError(f"{latency!r} is no latency: use one of {', '.join(LATENCIES)}")
    return latency


def _rate(cost: str) -> str:
    return cost_metrics.COSTS[cost].rate


def _with_costs(con: duckdb.DuckDBPyConnection, found: pd.DataFrame, costs: Sequence[str]) -> pd.DataFrame:
    """Null where nobody knows a price of the hardware on the day."""
    if not costs:
        return found
    keys = list(zip(found["hardware"], found["study_id"], found["day"], strict=True))
    book = prices(con)
    known = {key: _price(book, *key) for key in dict.fromkeys(keys)}
    priced = [known[key] for key in keys]
    currencies = [None if price is None else price.currency for price in priced]
    added = {name: _costs(name, priced, found[_rate(name)]) for name in costs}
    return found.assign(currency=pd.Series(currencies, index=found.index, dtype=object), **added)


def _price(book: Prices, hardware: str, study_id: str, day: str) -> Price | None:
    begun = None if day == UNKNOWN else date.fromisoformat(day)
    try:
        return book.of({"hardware": hardware, "study_id": study_id, "day": begun})
    except QueryError:
        return None


def _costs(name: str, priced: Sequence[Price | None], rates: pd.Series) -> pd.Series:
    formula = cost_metrics.COSTS[name].formula
    pairs = zip(priced, rates, strict=True)
    found = [None if price is None or pd.isna(rate) else formula(price.per_hour, float(rate)) for price, rate in pairs]
    return pd.Series(found, index=rates.index, dtype=float)
