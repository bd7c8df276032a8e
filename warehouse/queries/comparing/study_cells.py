"""Cells of several studies, own or imported: the runs of an arm that agree in all that is known of them, as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from lab.comparison.samples import RunSample
from lab.errors import QueryError, UnknownPriceError
from lab.metrics.number_format import number
from warehouse.queries.comparing.paired_runs import sample
from warehouse.queries.prices import COSTS, Prices, prices
from warehouse.queries.rows import Row, dicts

#: More runs than these are chosen by their studies, not one by one.
MOST_RUNS = 50
_UNKNOWN_WORKLOAD = "unknown workload"
#: Null is known to mean none, or the default, in runs of a Drafthouse alone.
_OURS = "(r.origin = 'measured' OR r.tool = 'drafthouse')"


@dataclass(frozen=True)
class _Fact:
    """A property of runs as text, null where unknown. `is_detail`: it is named only where both sides know it.

    `varies`: runs that are repeats of each other may differ in it.
    """

    name: str
    sql: str
    is_detail: bool = False
    varies: bool = False


_FACTS = (
    _Fact("model", "r.target"),
    _Fact("model weights", "r.target_digest", is_detail=True),
    _Fact("method", "r.method"),
    _Fact("draft model", "coalesce(r.draft_model, CASE WHEN r.method = 'none' THEN 'none' END)"),
    _Fact("draft tokens k", "coalesce(r.num_speculative_tokens::TEXT, CASE WHEN r.method = 'none' THEN 'none' END)"),
    _Fact("engine", "r.engine"),
    _Fact("engine version", "r.engine_version"),
    _Fact("engine flags", "nullif(s.arm_json->>'flags', '{}')", is_detail=True),
    _Fact("engine configuration", "nullif(s.arm_json->>'config', '{}')", is_detail=True),
    _Fact("hardware", "r.hardware"),
    _Fact("GPUs", "len(r.gpus)::TEXT", is_detail=True),
    _Fact("driver version", "r.driver_version", is_detail=True, varies=True),
    _Fact("host", "r.host", is_detail=True, varies=True),
    _Fact("dataset", "r.dataset"),
    _Fact("dataset's file", "left(r.dataset_digest, 12)", is_detail=True),
    _Fact("category", "r.category"),
    _Fact(
        "prompt tokens, as made",
        f"coalesce(r.input_tokens::TEXT, CASE WHEN {_OURS} THEN 'as in the dataset' END)",
    ),
    _Fact("output tokens, at most", "r.requested_output_tokens::TEXT"),
    _Fact(
        "output ends",
        "CASE r.ignore_eos WHEN true THEN 'at its full length' WHEN false THEN 'where the model ends it' END",
    ),
    _Fact("sessions", f"coalesce(r.session_answers, CASE WHEN {_OURS} THEN 'none' END)", is_detail=True),
    _Fact("seed of the prompts", "r.prompts_seed::TEXT", is_detail=True),
    _Fact("temperature", "format('{:g}', r.temperature)"),
    _Fact("endpoint", "r.endpoint"),
    _Fact("greatest concurrency", "r.concurrency::TEXT"),
    _Fact("arrivals", "CASE WHEN NOT r.closed_loop THEN r.arrivals END", is_detail=True),
    _Fact("burstiness", "CASE WHEN NOT r.closed_loop THEN format('{:g}', r.burstiness) END", is_detail=True),
    _Fact("requests of a run", "r.num_prompts::TEXT"),
    _Fact(
        "client",
        "CASE WHEN r.origin = 'imported' AND r.tool <> 'drafthouse' THEN concat_ws(' ', r.tool, r.tool_version) "
        "ELSE 'Drafthouse' END",
    ),
    _Fact("revision of Drafthouse", "r.drafthouse_revision", is_detail=True, varies=True),
)
#: Further facts, which are computed.
_PROMPT_TOKENS, _OUTPUT_TOKENS, _DAYS, PRICE = (
    *("prompt tokens of a request, mean", "output tokens of a request, mean"),
    *("measured on", "price of an hour"),
)
#: Facts that define the workload.
OF_WORKLOAD = ("dataset", "category", "prompt tokens, as made", "output tokens, at most", "sessions")
_RUNS = """
    SELECT r.run_id, r.job_id, r.study_name, r.study_id, r.arm, coalesce(r.is_baseline, false) AS is_baseline, r.origin,
        r.tool, r.workload_label, r.pattern, r.concurrency, r.request_rate_rps, r.closed_loop, r.arrivals, r.load_id,
        r.repeat, r.launch_index, r.taken_over_from, r.host, r.until_decided,
        r.started_at::DATE AS day, r.requests_completed,
        r.prompt_tokens / nullif(r.requests_completed, 0) AS prompt_length,
        r.completion_tokens / nullif(r.requests_completed, 0) AS output_length,
        coalesce(r.hardware, 'unknown hardware') AS hardware, s.slo_json, r.score,
        r.labels_json->>'token_count' AS counted, {facts}, r."{metric}" AS number
    FROM valid_latest_runs AS r JOIN (SELECT run_id, arm_json, slo_json FROM runs) AS s USING (run_id)
    WHERE list_contains($1, r.job_id) AND ($2 IS NULL OR list_contains($2, run_id))
    ORDER BY r.job_id, r.workload_label, r.concurrency, r.request_rate_rps, r.started_at, r.run_id
"""
DETAILS = frozenset(fact.name for fact in _FACTS if fact.is_detail)
_FACT_COLUMNS = ", ".join(f'{fact.sql} AS "fact {fact.name}"' for fact in _FACTS)


@dataclass(frozen=True)
class StudyArm:
    """An arm of one study; `arm` is its name there."""

    job_id: str
    study: str
    arm: str

    @property
    def label(self) -> str:
        return f"{self.arm} · {self.study} · {self.job_id}"


@dataclass(frozen=True)
class Cell:
    """Runs of an arm that agree in all that is known of them. `load` is None if it is unknown; `definition` says what
    the metric counts where that is not the same in every run, and is None where it is unknown.
    """

    of: StudyArm
    is_baseline: bool
    workload: str
    load: str | None
    concurrency: int | None  # of a closed loop
    facts: Mapping[str, str | None]
    definition: str | None
    runs: tuple[RunSample, ...]
    why_unknown: str = ""  # why no run has a value
    note: str = ""  # what tells it from another cell of the same arm, workload and load

    @property
    def is_unknown(self) -> bool:
        """Return whether no run has a value."""
        return all(run.value is None for run in self.runs)

    @property
    def value(self) -> float | None:
        """Return the geometric mean of the runs' values, of which ratios are made; None without, or with one of 0."""
        values = [run.value for run in self.runs if run.value is not None]
        if not values or min(values) <= 0:
            return None
        return math.exp(math.fsum(map(math.log, values)) / len(values))


def read_cells(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, runs: Sequence[str], price: float | None
) -> tuple[list[Cell], list[str]]:
    """Return the cells of the valid runs of these jobs, and a sentence for each of the chosen `runs` that is none.

    Raises QueryError if more than MOST_RUNS were chosen.
    """
    if len(runs) > MOST_RUNS:
        raise QueryError(f"{len(runs)} runs are too many to choose one by one: at most {MOST_RUNS}; choose studies")
    column = COSTS[metric].rate if metric in COSTS else metric
    query = _RUNS.format(facts=_FACT_COLUMNS, metric=column)
    rows = dicts(con, query, [list(jobs), list(runs) or None])
    if metric in COSTS:
        rows = _priced(rows, metric, prices(con, price))
    missing = sorted(set(runs) - {row["run_id"] for row in rows})
    left_out = [
        f"run {run}: not of the chosen studies, failed, found invalid, or replaced by a later attempt"
        for run in missing
    ]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        facts = tuple(row[f"fact {fact.name}"] for fact in _FACTS if not fact.varies)
        groups.setdefault((row["job_id"], row["arm"], row["workload_label"], row["pattern"], facts), []).append(row)
    cells = [_with_reason(con, _cell(group, metric), metric) for group in groups.values()]
    return _noted(cells), left_out


def _noted(cells: Sequence[Cell]) -> list[Cell]:
    """Add what tells cells of one arm, workload and load apart: `hardware A100`."""
    alike: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.of, cell.workload, cell.load), []).append(cell)
    varying = {
        key: [fact.name for fact in _FACTS if len({cell.facts[fact.name] for cell in group}) > 1]
        for key, group in alike.items()
    }
    notes = [
        ", ".join(f"{name} {cell.facts[name] or 'unknown'}" for name in varying[cell.of, cell.workload, cell.load])
        for cell in cells
    ]
    return [replace(cell, note=note) for cell, note in zip(cells, notes, strict=True)]


def _priced(rows: Sequence[Row], metric: str, book: Prices) -> list[Row]:
    """Return the rows with costs as their numbers, and the price of an hour; both are null where no price is known."""
    priced: list[Row] = []
    for row in rows:
        try:
            price = book.of(row)
        except UnknownPriceError as error:
            priced.append(row | {"number": None, "price": None, "currency": None, "why": str(error)})
            continue
        value = COSTS[metric].formula(price.per_hour, row["number"])
        words = f"{number(price.per_hour)} {price.currency}"
        priced.append(row | {"number": value, "price": words, "currency": price.currency, "why": ""})
    return priced


def _cell(rows: Sequence[Row], metric: str) -> Cell:
    row = rows[0]
    days = [each["day"] for each in rows]
    facts = {fact.name: _distinct([each[f"fact {fact.name}"] for each in rows]) for fact in _FACTS}
    facts |= {
        _PROMPT_TOKENS: _mean(rows, "prompt_length"),
        _OUTPUT_TOKENS: _mean(rows, "output_length"),
        _DAYS: None if None in days else " to ".join(dict.fromkeys((str(min(days)), str(max(days))))),
    }
    if metric in COSTS:
        facts[PRICE] = _distinct([each["price"] for each in rows])
    definitions = {_definition(each, metric) for each in rows}
    return Cell(
        StudyArm(row["job_id"], row["study_name"], row["arm"]),
        any(each["is_baseline"] for each in rows),
        row["workload_label"] or _UNKNOWN_WORKLOAD,
        _load(row),
        row["concurrency"] if row["closed_loop"] else None,
        facts,
        definitions.pop() if len(definitions) == 1 else None,
        tuple(sample(each | {"repeat": each["repeat"] or 0}) for each in rows),  # nothing is paired by repeats
        row.get("why", ""),
    )


def _distinct(values: Sequence[str | None]) -> str | None:
    """Return the values of a cell's runs in one text; None if one is unknown."""
    known = [value for value in values if value is not None]
    return ", ".join(dict.fromkeys(known)) if len(known) == len(values) else None


def _mean(rows: Sequence[Row], name: str) -> str | None:
    values = [row[name] for row in rows]
    return None if None in values else number(math.fsum(values) / len(values))


def _load(row: Row) -> str | None:
    """Name the load by which runs are matched: a concurrency, a steady request rate, or a schedule of our own."""
    if row["arrivals"] not in (None, "gamma", "constant"):
        return f"{row['pattern']} ({row['load_id'][:8]})" if row["load_id"] else None
    if row["request_rate_rps"] is not None:
        return f"{row['request_rate_rps']:g} requests/s"
    return f"concurrency {row['concurrency']}" if row["closed_loop"] and row["concurrency"] is not None else None


#: Metrics of the tokens that somebody counted, apart from the costs that are computed from them.
_OF_COUNTED_TOKENS = ("output_tok_per_s", "total_tok_per_s", "answer_tok_per_s", "energy_j_per_output_token")
#: Metrics that grow with the number of requests.
_TOTALS = ("requests_failed", "requests_within_slo", "num_wasted_tokens", "num_forbidden_draft_tokens", "energy_j")


def _definition(row: Row, metric: str) -> str | None:
    """Say what the metric of a run counts where that is not the same in every run; None if it is unknown."""
    if metric in COSTS:
        of_rate = _definition(row, COSTS[metric].rate)
        return None if of_rate is None or row["currency"] is None else f"{of_rate} in {row['currency']}".strip()
    if metric in _OF_COUNTED_TOKENS:
        return f"tokens counted by {row['tool']}" if row["counted"] == "client" else "tokens counted by the server"
    if metric.startswith("goodput_") or metric == "requests_within_slo":
        return None if row["slo_json"] is None else f"requests within {_bounds(json.loads(row['slo_json']))}"
    if metric == "task_score":
        return None if row["score"] is None else f"answers scored by {row['score']}"
    if metric in _TOTALS:
        return f"over {row['requests_completed']} completed requests"
    return ""


def _bounds(slo: Mapping[str, float | None]) -> str:
    """Write an SLO: `TTFT 200 ms, TPOT 30 ms`."""
    bounds = {name.removesuffix("_ms").upper(): limit for name, limit in slo.items() if limit is not None}
    return ", ".join(f"{name} {limit:g} ms" for name, limit in bounds.items()) or "no bounds"


#: How tools name what resembles a metric of ours, by the beginning of its name.
_ALIKE: Mapping[str, tuple[str, ...]] = {
    "tpot_": ("tpot", "time_per_output_token", "inter_token_latency", "token_latency"),
    "itl_": ("itl", "inter_token_latency"),
    "icl_": ("icl", "itl", "inter_token_latency"),
    "ttft_": ("ttft", "ttfr", "first_token"),
    "output_tok_per_s": ("output_throughput", "output_token_throughput", "output_tokens_per_sec", "tg_throughput"),
    "total_tok_per_s": ("total_throughput", "total_token_throughput", "total_tokens_per_sec"),
    "acceptance_": ("acceptance", "accept_length", "accept_rate"),
}
_LEFT_OUT = """
    SELECT DISTINCT left_out FROM imported_figures
    WHERE list_contains($1, run_id) AND NOT regexp_matches(left_out, '^(no column|standard deviations)')
        AND (field = $2 OR len(list_filter($3::TEXT[], lambda name: contains(field, name))) > 0)
    ORDER BY left_out
"""


def _with_reason(con: duckdb.DuckDBPyConnection, cell: Cell, metric: str) -> Cell:
    """Name the reasons for which figures of the cell's files that resemble the metric were left out."""
    if cell.why_unknown or not cell.is_unknown:
        return cell
    rate = COSTS[metric].rate if metric in COSTS else metric
    alike = next((list(names) for begin, names in _ALIKE.items() if rate.startswith(begin)), [])
    run_ids = [run.run_id for run in cell.runs]
    reasons = [reason for (reason,) in con.execute(_LEFT_OUT, [run_ids, rate, alike]).fetchall()]
    if not reasons:
        return cell
    return replace(cell, why_unknown=f"{cell.facts['client']} defines it otherwise: {'; '.join(reasons)}")
