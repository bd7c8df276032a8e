"""Any slice of the runs, whatever their study and origin, as the Explore page asks for it.

What a slice is made of are dimensions: properties of a run as text, the same in filters, groups and axes. No user's text
is ever part of the SQL: names of columns come from this file and `lab.metrics`, values are parameters.
"""

# ruff: noqa: S608 - no user's text is in this SQL
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

import duckdb
import pandas as pd

from lab.cost import Price
from lab.errors import QueryError
from lab.latency import LATENCIES
from warehouse import cost_metrics
from warehouse.queries import COMPARABLE, frame
from warehouse.study_prices import Prices, prices

Validity = Literal["not invalid", "valid", "invalid", "any"]
VALIDITIES: tuple[Validity, ...] = get_args(Validity)
UNKNOWN, NONE, CLOSED_LOOP = "unknown", "none", "closed loop"
#: Each dimension as SQL over `results`; what is null there has a word of its own.
DIMENSIONS: dict[str, str] = {
    "study": "study_name || ' · ' || job_id",
    "arm": "arm",
    "dataset": f"coalesce(dataset, '{UNKNOWN}')",
    "category": f"coalesce(category, '{UNKNOWN}')",
    "load": f"coalesce(pattern, '{UNKNOWN}')",
    "concurrency": f"coalesce(concurrency::VARCHAR, '{UNKNOWN}')",
    "request_rate": f"CASE WHEN origin = 'published' THEN '{UNKNOWN}' "
    f"ELSE coalesce(request_rate_rps::VARCHAR, '{CLOSED_LOOP}') END",
    "method": f"coalesce(method, '{UNKNOWN}')",
    "draft_model": f"coalesce(draft_model, CASE WHEN method IS NULL THEN '{UNKNOWN}' ELSE '{NONE}' END)",
    "k": f"coalesce(num_speculative_tokens::VARCHAR, CASE WHEN method = 'none' THEN '{NONE}' ELSE '{UNKNOWN}' END)",
    "engine": f"CASE WHEN engine IS NULL THEN '{UNKNOWN}' ELSE concat_ws(' ', engine, engine_version) END",
    "hardware": f"coalesce(hardware, '{UNKNOWN}')",
    "target": f"coalesce(target, '{UNKNOWN}')",
    "origin": "origin",
    "day": f"coalesce(strftime(started_at, '%Y-%m-%d'), '{UNKNOWN}')",
}
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


@dataclass(frozen=True)
class Filters:
    """Which completed runs. `values`: of a dimension any of these, and so for each that is named.

    Runs of an origin in `beside` are there whatever their study. `begun_from` and `begun_to` are days in UTC, both
    included; a run that does not tell when it began is outside of every range.
    """

    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    beside: tuple[str, ...] = ()
    begun_from: date | None = None
    begun_to: date | None = None
    validity: Validity = "not invalid"

    def without(self, name: str) -> Filters:
        """The same without one of the filters that `active` names."""
        if name == "from":
            return Filters(self.values, self.beside, None, self.begun_to, self.validity)
        if name == "to":
            return Filters(self.values, self.beside, self.begun_from, None, self.validity)
        if name == "validity":
            return Filters(self.values, self.beside, self.begun_from, self.begun_to, "any")
        kept = tuple((each, chosen) for each, chosen in self.values if each != name)
        return Filters(kept, self.beside, self.begun_from, self.begun_to, self.validity)

    @property
    def active(self) -> tuple[str, ...]:
        """Names of what narrows: dimensions, `from`, `to`, `validity`."""
        names = [name for name, chosen in self.values if chosen]
        names += ["from"] if self.begun_from else []
        names += ["to"] if self.begun_to else []
        return (*names, *(() if self.validity == "any" else ("validity",)))


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
            SELECT {_dimensions(DIMENSIONS)}, started_at AS begun FROM results WHERE status = 'completed'
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
    where, parameters = _where(filters)
    selected = ", ".join(f'{DERIVED.get(name, f"results.{name}")} AS "{name}"' for name in wanted)
    found = frame(
        con,
        f"""
        SELECT run_id, job_id, study_name, study_id, is_baseline, is_valid, repeat, started_at, {_SOURCE} AS source,
            len(results.gpus) AS gpus, {_dimensions(DIMENSIONS)}{", " if selected else ""}{selected}
        FROM results WHERE {where} ORDER BY started_at NULLS FIRST, run_id
        """,
        parameters,
    )
    return _with_costs(con, found, costs).drop(columns="study_id")


def count(con: duckdb.DuckDBPyConnection, filters: Filters) -> int:
    """How many runs there are."""
    where, parameters = _where(filters)
    found = con.execute(f"SELECT count(*) FROM results WHERE {where}", parameters).fetchone()
    return int(found[0]) if found else 0


def to_blame(con: duckdb.DuckDBPyConnection, filters: Filters) -> list[tuple[str, int]]:
    """Where nothing matches: each filter without which something would, and how many runs."""
    found = [(name, count(con, filters.without(name))) for name in filters.active]
    return [(name, runs) for name, runs in found if runs]


def pooled(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by` (of DIMENSIONS), bucket, count: histograms of one of lab.latency.LATENCIES, all runs of a group together.

    Percentiles of it: `lab.histogram.quantile`. Runs without single requests (published, some imported) are not in it.
    """
    _check(latency, by)
    where, parameters = _where(filters)
    return frame(
        con,
        f"""
        WITH chosen AS MATERIALIZED (SELECT run_id, {_dimensions(by)} FROM results WHERE {where})
        SELECT {", ".join(by)}, bucket, sum(count)::BIGINT AS count
        FROM histograms JOIN chosen USING (run_id) WHERE metric = ? GROUP BY ALL ORDER BY ALL
        """,
        [*parameters, latency],
    )


def pooled_runs(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by`, runs: how many runs each group of `pooled` has."""
    _check(latency, by)
    where, parameters = _where(filters)
    return frame(
        con,
        f"""
        WITH chosen AS MATERIALIZED (SELECT run_id, {_dimensions(by)} FROM results WHERE {where})
        SELECT {", ".join(by)}, count(*) AS runs FROM chosen
        WHERE run_id IN (SELECT run_id FROM histograms WHERE metric = ?) GROUP BY ALL ORDER BY ALL
        """,
        [*parameters, latency],
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


def _check(latency: str, by: Sequence[str]) -> None:
    if latency not in LATENCIES or (lost := [name for name in by if name not in DIMENSIONS]):
        raise QueryError(f"{latency!r} is no latency" if latency not in LATENCIES else f"no dimension: {lost}")


def _dimensions(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(f"{DIMENSIONS[name]} AS {name}" for name in names)


def _where(filters: Filters) -> tuple[str, list[Any]]:
    """Raises QueryError for what is no dimension or no validity."""
    clauses = ["status = 'completed'", _VALID[_known(filters.validity, _VALID)]]
    parameters: list[Any] = []
    for name, chosen in filters.values:
        if not chosen:
            continue
        clause = f"list_contains(?::VARCHAR[], {DIMENSIONS[_known(name, DIMENSIONS)]})"
        parameters.append(list(chosen))
        if name == "study" and filters.beside:
            clause = f"({clause} OR list_contains(?::VARCHAR[], origin))"
            parameters.append(list(filters.beside))
        clauses.append(clause)
    for day, clause in ((filters.begun_from, "started_at >= ?::DATE"), (filters.begun_to, "started_at < ?::DATE + 1")):
        if day is not None:
            clauses.append(clause)
            parameters.append(day)
    return " AND ".join(clauses), parameters


_VALID = {"not invalid": "is_valid IS NOT false", "valid": "is_valid", "invalid": "is_valid = false", "any": "true"}


def _known(name: str, known: dict[str, str]) -> str:
    if name not in known:
        raise QueryError(f"{name!r} is no filter: use one of {', '.join(known)}")
    return name


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
