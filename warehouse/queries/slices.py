"""Runs of any study and origin: filters, dimensions and numbers, as the Explore page uses them.

A dimension is a property of a run as text, the same in filters, groups and axes. No text of a user is ever part of the
SQL: names of columns come from this module, values are parameters.
"""

# ruff: noqa: S608 - no text of a user is in this SQL
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal, get_args

import duckdb
import pandas as pd

from lab.cost import Price
from lab.errors import QueryError
from lab.metrics.catalogue import LATENCIES
from lab.metrics.histogram import GROWTH, SMALLEST, ZERO_BUCKET
from warehouse.queries import free_percentiles
from warehouse.queries.prices import COSTS, Prices, prices
from warehouse.queries.results import COMPARABLE, frame
from warehouse.schema.tables import REQUEST_GROUP_COLUMNS

Validity = Literal["not invalid", "valid", "invalid", "any"]
VALIDITIES: tuple[Validity, ...] = get_args(Validity)
UNKNOWN, NONE, CLOSED_LOOP = "unknown", "none", "closed loop"
#: Each dimension as SQL over `results`; null becomes a word.
DIMENSIONS: dict[str, str] = {
    "study": "study_name || ' · ' || job_id",
    "arm": "arm",
    "dataset": f"coalesce(dataset, '{UNKNOWN}')",
    "category": f"coalesce(category, '{UNKNOWN}')",
    "load": f"coalesce(pattern, '{UNKNOWN}')",
    "concurrency": f"coalesce(concurrency::VARCHAR, '{UNKNOWN}')",
    "request_rate": f"coalesce(request_rate_rps::VARCHAR, CASE WHEN closed_loop THEN '{CLOSED_LOOP}' "
    f"WHEN closed_loop IS NULL THEN '{UNKNOWN}' ELSE arrivals END)",
    "method": f"coalesce(method, '{UNKNOWN}')",
    "draft_model": f"coalesce(draft_model, CASE WHEN method IS NULL THEN '{UNKNOWN}' ELSE '{NONE}' END)",
    "k": f"coalesce(num_speculative_tokens::VARCHAR, CASE WHEN method = 'none' THEN '{NONE}' ELSE '{UNKNOWN}' END)",
    "engine": f"CASE WHEN engine IS NULL THEN '{UNKNOWN}' ELSE concat_ws(' ', engine, engine_version) END",
    "hardware": f"coalesce(hardware, '{UNKNOWN}')",
    "target": f"coalesce(target, '{UNKNOWN}')",
    "origin": "origin",
    "day": f"coalesce(strftime(started_at, '%Y-%m-%d'), '{UNKNOWN}')",
}
#: A filter only: a study has several.
TAG = "tag"
#: Dimensions of requests, by which and of which `runs` gives groups of a run's requests: their column of
#: `request_groups`.
REQUEST_DIMENSIONS: dict[str, str] = {"turn": "turn", "context": "context_tokens"}
_GRAINS = {("turn",): "turn", ("context",): "context", ("context", "turn"): "turn and context"}
#: The same dimensions of a request, as SQL over `request_records`, in the steps of `lab.metrics.groups`.
_OF_REQUEST: dict[str, str] = {
    "turn": "CASE WHEN turn <= 8 THEN turn ELSE pow(2, ceil(log2(turn)) - 1) + 1 END::INTEGER::VARCHAR",
    "context": "context_tokens::VARCHAR",
}
#: Latencies with one value a request, which are therefore known by turn and context.
OF_REQUESTS = ("ttft", "tpot", "e2e")
#: Numbers that groups of requests have too.
GROUPED = tuple(
    column.name for column in REQUEST_GROUP_COLUMNS if column.name in COMPARABLE and column.kind.startswith("double")
)
_VALID = {"not invalid": "is_valid IS NOT false", "valid": "is_valid", "invalid": "is_valid = false", "any": "true"}


@dataclass(frozen=True)
class Filters:
    """A choice of completed runs. `chosen` lists dimensions with their allowed values, all of which must match; with
    one of REQUEST_DIMENSIONS only such requests of the runs are meant. A study matches by the job in its value,
    whatever its name is now, and by any of its tags. Runs of hidden studies match only if studies are chosen.

    Runs of an origin in `beside` match whatever their study. `begun_from` and `begun_to` are days in UTC, both
    included; a run of unknown start is outside of every range.
    """

    chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    beside: tuple[str, ...] = ()
    begun_from: date | None = None
    begun_to: date | None = None
    validity: Validity = "not invalid"

    def without(self, name: str) -> Filters:
        """Return the filters without one that `active` names."""
        if name == "validity":
            return replace(self, validity="any")
        if name == "from":
            return replace(self, begun_from=None)
        if name == "to":
            return replace(self, begun_to=None)
        return replace(self, chosen=tuple(pair for pair in self.chosen if pair[0] != name))

    @property
    def of_requests(self) -> tuple[str, ...]:
        """Return the dimensions of requests among the filters in use."""
        return tuple(name for name, values in self.chosen if values and name in REQUEST_DIMENSIONS)

    @property
    def active(self) -> tuple[str, ...]:
        """Return the names of the filters in use: dimensions, `from`, `to`, `validity`."""
        names = [name for name, values in self.chosen if values]
        names += ["from"] if self.begun_from else []
        names += ["to"] if self.begun_to else []
        return (*names, *(() if self.validity == "any" else ("validity",)))


def _relation(filters: Filters, by: Sequence[str] = ()) -> str:
    """Return the relation to select from: superseded attempts are left out whenever invalid runs are.

    A row for each group of a run's requests where there is a dimension of requests in `by` or among the filters: it is
    a column of text then, and what groups do not have is null. Raises QueryError for a dimension that requests do not
    have.
    """
    shown = "valid_latest_runs" if filters.validity in ("not invalid", "valid") else "results"
    dimensions = sorted({*by, *filters.of_requests})
    if not dimensions:
        return f"{shown} AS results"
    for name in dimensions:
        _known(name, REQUEST_DIMENSIONS)
    columns = ", ".join(f'g."{REQUEST_DIMENSIONS[name]}"::VARCHAR AS "{name}"' for name in dimensions)
    numbers = ", ".join(f'{f"g.{name}" if name in GROUPED else "NULL"} AS "{name}"' for name in COMPARABLE)
    grain = _GRAINS[tuple(dimensions)]
    return (
        f"(SELECT r.* REPLACE ({numbers}), {columns} FROM {shown} AS r "
        f"JOIN (SELECT * FROM request_groups WHERE grain = '{grain}') AS g USING (run_id)) AS results"
    )


def selected(names: Iterable[str]) -> str:
    """Return dimensions as columns of a SELECT. Raises QueryError for an unknown dimension."""
    return ", ".join(f"{DIMENSIONS[_known(name, DIMENSIONS)]} AS {name}" for name in names)


def where(filters: Filters) -> tuple[str, list[Any]]:
    """Return the condition of a WHERE and its parameters. Raises QueryError for an unknown dimension or validity."""
    clauses = ["status = 'completed'", "search IS NULL", _VALID[_known(filters.validity, _VALID)]]
    parameters: list[Any] = []
    for name, values in filters.chosen:
        if not values:
            continue
        if name == "study":
            of_job = "origin <> 'published' AND list_contains(?::VARCHAR[], job_id)"
            clause = f"({of_job} OR list_contains(?::VARCHAR[], {DIMENSIONS[name]}))"
            parameters.append([value.rpartition(" · ")[2] for value in values])
        elif name == TAG:
            clause = "list_has_any(tags, ?::VARCHAR[])"
        else:
            value = f'"{name}"' if name in REQUEST_DIMENSIONS else DIMENSIONS[_known(name, DIMENSIONS)]
            clause = f"list_contains(?::VARCHAR[], {value})"
        parameters.append(list(values))
        if name == "study" and filters.beside:
            clause = f"({clause} OR list_contains(?::VARCHAR[], origin))"
            parameters.append(list(filters.beside))
        clauses.append(clause)
    if not dict(filters.chosen).get("study"):
        clauses.append("is_hidden IS NOT true")
    for day, clause in ((filters.begun_from, "started_at >= ?::DATE"), (filters.begun_to, "started_at < ?::DATE + 1")):
        if day is not None:
            clauses.append(clause)
            parameters.append(day)
    return " AND ".join(clauses), parameters


def _known(name: str, names: Collection[str]) -> str:
    if name not in names:
        raise QueryError(f"{name!r} is not a filter: use one of {', '.join(names)}")
    return name


#: Numbers of a run computed from its metrics, as SQL over `results`. A ratio of two hosts would compare the hosts.
DERIVED: dict[str, str] = {
    "tok_per_s_per_user": "1000 / nullif(tpot_p50_ms, 0)",
    "tok_per_s_per_gpu": "output_tok_per_s / nullif(len(gpus), 0)",
    "speedup": """output_tok_per_s / nullif((
        SELECT avg(base.output_tok_per_s) FROM valid_latest_runs AS base
        WHERE base.is_baseline AND base.job_id = results.job_id AND base.repeat IS NOT DISTINCT FROM results.repeat
            AND base.workload_label IS NOT DISTINCT FROM results.workload_label
            AND base.pattern IS NOT DISTINCT FROM results.pattern
            AND (base.host IS NOT DISTINCT FROM results.host OR coalesce(results.tool, 'drafthouse') <> 'drafthouse')
    ), 0)""",
}
#: All numbers that `runs` can give.
NUMBERS: tuple[str, ...] = (*COMPARABLE, *DERIVED, *COSTS)
#: Where a run's figures come from: a publication, a tool whose file was imported, or this Drafthouse.
_SOURCE = """CASE origin WHEN 'published' THEN regexp_replace(job_id, '^published-', '')
    WHEN 'imported' THEN concat_ws(' ', tool, tool_version) ELSE 'Drafthouse' END"""


#: Published and imported ratios of an output throughput to the baseline of its own source.
_SPEEDUPS_OF_OTHERS = f"""
    SELECT method, ratio_to_baseline AS speedup, source FROM published_results
    WHERE metric = 'output_throughput' AND ratio_to_baseline IS NOT NULL AND method <> 'none'
    UNION ALL
    SELECT method, {DERIVED["speedup"]} AS speedup, job_id AS source FROM valid_latest_runs AS results
    WHERE origin = 'imported' AND NOT coalesce(is_baseline, false)
"""


def speedups_of_others(con: duckdb.DuckDBPyConnection, methods: Sequence[str]) -> pd.DataFrame:
    """method, speedup, source: one row per published or imported speed-up of one of these methods of speculation."""
    query = f"SELECT * FROM ({_SPEEDUPS_OF_OTHERS}) WHERE speedup IS NOT NULL AND list_contains(?::VARCHAR[], method)"
    return frame(con, query, [list(methods)])


def options(con: duckdb.DuckDBPyConnection, filters: Filters | None = None) -> pd.DataFrame:
    """dimension, value, runs (number of completed runs), begun (start of the newest of them, null if unknown).

    Dimensions of requests too. `filters`: of these runs alone.
    """
    filters = filters or Filters(validity="any")
    condition, parameters = where(filters)
    of_runs = (
        f"SELECT '{name}' AS dimension, {name} AS value, count(DISTINCT run_id) AS runs, max(begun) AS begun "
        "FROM each GROUP BY ALL"
        for name in DIMENSIONS
    )
    of_requests = (
        f"SELECT '{name}', {column}::VARCHAR, count(DISTINCT run_id), max(begun) "
        f"FROM request_groups JOIN each USING (run_id) WHERE grain = '{name}' GROUP BY ALL"
        for name, column in REQUEST_DIMENSIONS.items()
    )
    tagged = "SELECT DISTINCT run_id, unnest(tags) AS value, begun FROM each"
    of_tags = f"SELECT '{TAG}', value, count(*), max(begun) FROM ({tagged}) GROUP BY ALL"
    parts = " UNION ALL ".join((*of_runs, *of_requests, of_tags))
    return frame(
        con,
        f"""
        WITH each AS MATERIALIZED (
            SELECT run_id, {selected(DIMENSIONS)}, tags, started_at AS begun FROM {_relation(filters)} WHERE {condition}
        ) {parts} ORDER BY ALL
        """,
        parameters,
    )


def runs(
    con: duckdb.DuckDBPyConnection, filters: Filters, numbers: Sequence[str], by: Sequence[str] = ()
) -> pd.DataFrame:
    """One row per run, oldest first: run_id, job_id, study_name, is_baseline, is_valid, repeat, started_at, source,
    workload_label, gpus (their number), each of DIMENSIONS, and the `numbers` in the units of their metrics.

    With `by`, or filters, of REQUEST_DIMENSIONS: one per group of its requests, which are columns then.

    Costs come with a column `currency` (null without a price). Raises QueryError for a number that is neither in
    NUMBERS nor a percentile as `free_percentiles` names it.
    """
    free = [name for name in numbers if free_percentiles.is_free(name)]
    by = tuple(dict.fromkeys((*by, *filters.of_requests)))
    if by and free:
        raise QueryError(
            "other percentiles are known for whole runs only: by turn or context choose p50, p90, p95 or p99"
        )
    if lost := [name for name in numbers if name not in NUMBERS and name not in free]:
        raise QueryError(f"not a number of a run: {', '.join(lost)}")
    costs = [name for name in numbers if name in COSTS]
    wanted = dict.fromkeys(
        [*(name for name in numbers if name not in (*costs, *free)), *(COSTS[name].rate for name in costs)]
    )
    condition, parameters = where(filters)
    measured = ", ".join(f'{DERIVED.get(name, f"results.{name}")} AS "{name}"' for name in wanted)
    table = frame(
        con,
        f"""
        SELECT run_id, job_id, study_name, study_id, is_baseline, is_valid, repeat, started_at, {_SOURCE} AS source,
            workload_label,
            len(results.gpus) AS gpus, {selected(DIMENSIONS)}{"".join(f', "{name}"' for name in by)}
            {", " if measured else ""}{measured}
        FROM {_relation(filters, by)} WHERE {condition}
        ORDER BY started_at NULLS FIRST, run_id{"".join(f', "{name}"::INTEGER' for name in by)}
        """,
        parameters,
    )
    run_ids = table["run_id"].tolist()
    found = {name: table["run_id"].map(free_percentiles.of_runs(con, run_ids, name)) for name in free}
    return _with_costs(con, table.assign(**found), costs).drop(columns="study_id")


def acceptance(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> pd.DataFrame:
    """One row per run and position of its drafts, from 1: run_id, position, acceptance (of drafts up to there), drafts.

    Runs that did not draft have no row.
    """
    sql = """
        SELECT run_id, unnest(range(1, len(acceptance_per_position) + 1)) AS position,
            unnest(acceptance_per_position) AS acceptance, num_drafts AS drafts
        FROM run_metrics WHERE list_contains(?, run_id) AND num_drafts > 0 AND len(acceptance_per_position) > 0
    """
    return frame(con, sql, [list(run_ids)])


def count(con: duckdb.DuckDBPyConnection, filters: Filters) -> int:
    """Return the number of matching runs."""
    condition, parameters = where(filters)
    row = con.execute(
        f"SELECT count(DISTINCT run_id) FROM {_relation(filters)} WHERE {condition}", parameters
    ).fetchone()
    return int(row[0]) if row else 0


def filters_excluding_everything(con: duckdb.DuckDBPyConnection, filters: Filters) -> list[tuple[str, int]]:
    """Return, if nothing matches, each filter without which runs would match, and how many."""
    counts = [(name, count(con, filters.without(name))) for name in filters.active]
    return [(name, runs) for name, runs in counts if runs]


def pooled(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by` (of DIMENSIONS and REQUEST_DIMENSIONS), bucket, count: histograms of one of `LATENCIES`, pooled over runs
    in a group.

    `lab.metrics.histogram.quantile` gives percentiles of it. Runs without requests (published, some imported) are left
    out. Raises QueryError for a latency that is not of OF_REQUESTS together with a dimension of requests.
    """
    return _pooled(con, filters, latency, by, "bucket, sum(count)::BIGINT AS count")


def pooled_runs(con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str]) -> pd.DataFrame:
    """`by`, runs: the number of runs in each group of `pooled`."""
    return _pooled(con, filters, latency, by, "count(DISTINCT run_id) AS runs")


def _pooled(
    con: duckdb.DuckDBPyConnection, filters: Filters, latency: str, by: Sequence[str], figures: str
) -> pd.DataFrame:
    counted, parameters = _counted(filters, latency, by)
    query = f"WITH {counted} SELECT {', '.join(by)}, {figures} FROM counted GROUP BY ALL ORDER BY ALL"
    return frame(con, query, parameters)


def _counted(filters: Filters, latency: str, by: Sequence[str]) -> tuple[str, list[Any]]:
    """The table `counted`, to stand after WITH, and its parameters: run_id, `by`, bucket, count."""
    dimensions = dict.fromkeys((*by, *filters.of_requests))
    of_runs, of_requests = (
        [name for name in dimensions if (name in REQUEST_DIMENSIONS) == wanted] for wanted in (False, True)
    )
    condition, parameters = where(_without_requests(filters))
    columns = "".join(f", {selected([name])}" for name in of_runs)
    chosen = f"SELECT run_id{columns} FROM {_relation(_without_requests(filters))} WHERE {condition}"
    if not of_requests:
        counts = "SELECT * FROM histograms JOIN chosen USING (run_id) WHERE metric = ?"
        return f"chosen AS MATERIALIZED ({chosen}), counted AS ({counts})", [*parameters, _known_latency(latency)]
    if _known_latency(latency) not in OF_REQUESTS:
        raise QueryError(f"{latency} is not known by turn or context: use one of {', '.join(OF_REQUESTS)}")
    value = f"{latency}_ms"
    steps = ", ".join(f'{_OF_REQUEST[name]} AS "{name}"' for name in of_requests)
    kept = " AND ".join(f'"{name}" IS NOT NULL' for name in of_requests)
    for name in filters.of_requests:
        kept += f' AND list_contains(?::VARCHAR[], "{name}")'
        parameters.append(list(dict(filters.chosen)[name]))
    measured = f"SELECT run_id, {steps}, {value} AS ms FROM request_records WHERE is_completed AND {value} IS NOT NULL"
    counts = (
        f"SELECT * EXCLUDE (ms), CASE WHEN ms < {SMALLEST} THEN {ZERO_BUCKET} "
        f"ELSE ceil(ln(ms) / ln({GROWTH!r}))::INTEGER END AS bucket, 1 AS count "
        f"FROM ({measured}) JOIN chosen USING (run_id) WHERE {kept}"
    )
    return f"chosen AS MATERIALIZED ({chosen}), counted AS ({counts})", parameters


def _without_requests(filters: Filters) -> Filters:
    return replace(filters, chosen=tuple(pair for pair in filters.chosen if pair[0] not in REQUEST_DIMENSIONS))


def arms(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """arm, is_baseline (null if unknown) of a job's runs, the baseline first."""
    return frame(
        con,
        """
        SELECT arm, bool_or(is_baseline) AS is_baseline FROM results WHERE job_id = ?
        GROUP BY arm ORDER BY is_baseline DESC NULLS LAST, arm
        """,
        [job_id],
    )


def _known_latency(latency: str) -> str:
    if latency not in LATENCIES:
        raise QueryError(f"{latency!r} is not a latency: use one of {', '.join(LATENCIES)}")
    return latency


def _with_costs(con: duckdb.DuckDBPyConnection, runs: pd.DataFrame, costs: Sequence[str]) -> pd.DataFrame:
    """Add the costs; null if no price of the hardware is recorded for the day."""
    if not costs:
        return runs
    keys = list(zip(runs["hardware"], runs["study_id"], runs["day"], strict=True))
    book = prices(con)
    price_of = {key: _price(book, *key) for key in dict.fromkeys(keys)}
    priced = [price_of[key] for key in keys]
    currencies = [None if price is None else price.currency for price in priced]
    added = {name: _costs(name, priced, runs[COSTS[name].rate]) for name in costs}
    return runs.assign(currency=pd.Series(currencies, index=runs.index, dtype=object), **added)


def _price(book: Prices, hardware: str, study_id: str, day: str) -> Price | None:
    begun = None if day == UNKNOWN else date.fromisoformat(day)
    try:
        return book.of({"hardware": hardware, "study_id": study_id, "day": begun})
    except QueryError:
        return None


def _costs(name: str, priced: Sequence[Price | None], rates: pd.Series) -> pd.Series:
    formula = COSTS[name].formula
    pairs = zip(priced, rates, strict=True)
    amounts = [
        None if price is None or pd.isna(rate) else formula(price.per_hour, float(rate)) for price, rate in pairs
    ]
    return pd.Series(amounts, index=rates.index, dtype=float)
