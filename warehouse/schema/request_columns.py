"""The columns of `request_records` and `telemetry`, and of a run's latencies by prompt.

The columns of requests and telemetry are generated from RequestRecord and TelemetrySample; the ingester puts `run_id`
before them. Every column of a request but its index can be null, because the files of other tools record less.

The latencies of a run's prompts lie in one row, for comparisons: single requests would be millions of rows. Runs are
paired by prompt, so a prompt that was sent several times has the mean of its latencies. The list of prompts is stored
once for all runs that sent the same ones: a list of texts takes longer to read than all their latencies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lab.comparison.samples import Requests
from lab.metrics import latency
from lab.metrics.catalogue import LATENCIES
from lab.metrics.groups import context_steps
from lab.metrics.record_table import Floats
from lab.metrics.records import RequestRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.quality.scores import scores
from warehouse.schema.column import Column, column, recorded, rows

#: The columns that are computed, all but the first of them latencies in ms.
_IS_COMPLETED = column("is_completed", "bool", "whether it ended without error")
_COMPUTED: dict[str, tuple[str, Callable[[RequestTable], Floats]]] = {
    "send_delay_ms": ("sent_s - intended_send_s", latency.send_delay_ms),
    "ttft_ms": (f"{LATENCIES['ttft'].formula}, in ms", latency.ttft_ms),
    "ttft_from_intended_ms": (
        "first_token_s - intended_send_s: with the wait in the client",
        latency.ttft_from_intended_ms,
    ),
    "tpot_ms": (f"{LATENCIES['tpot'].formula}, in ms", latency.tpot_ms),
    "e2e_ms": (f"{LATENCIES['e2e'].formula}, in ms", latency.e2e_ms),
}
_CONTEXT = column(
    "context_tokens",
    "int?",
    "prompt_tokens, rounded up to a power of two from 256 on",
)
_SCORE = column("score", "double?", "the answer's score, 0 to 1")
_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
_PROMPTS_ID = column("prompts_id", "text", "SHA-256 of the prompt_ids, one per line")
PROMPT_LIST_COLUMNS = (
    _PROMPTS_ID,
    column("prompt_ids", "texts", "completed prompts, in the order of sending"),
)
PROMPT_LATENCY_COLUMNS = (
    _PROMPTS_ID,
    *(
        column(
            name,
            "doubles",
            "of each of prompt_ids: the mean if it was sent several times",
        )
        for name in _LATENCIES
    ),
)
#: With IN and a hundred ids DuckDB takes six times as long.
_NUMBERS = "SELECT run_id, prompts_id, {latency} AS numbers FROM prompt_latencies WHERE list_contains(?, run_id)"
_PROMPTS = "SELECT prompts_id, prompt_ids FROM prompt_lists WHERE prompts_id IN (SELECT unnest(?))"


#: The column whose values the warehouse rounds. Bundles have them exactly.
IN_MICROSECONDS = "chunk_s"


def _of_request(declared: Column) -> Column:
    if declared.name == IN_MICROSECONDS:
        declared = replace(declared, comment=f"{declared.comment}, to the microsecond")
    return declared if declared.name == "index" else declared.or_null()


REQUEST_COLUMNS: tuple[Column, ...] = (
    *map(_of_request, recorded(RequestRecord).values()),
    _IS_COMPLETED,
    *(column(name, "double?", comment) for name, (comment, _) in _COMPUTED.items()),
    _CONTEXT,
    _SCORE,
)
#: As `recent_requests` stores them. DuckDB packs whole microseconds into a third of the bytes; it leaves a DOUBLE
#: uncompressed in blocks of 64 KiB, and those of chunks would be most of a warehouse.
STORED_REQUEST_COLUMNS = tuple(
    replace(of_request, kind="millionths?") if of_request.name == IN_MICROSECONDS else of_request
    for of_request in REQUEST_COLUMNS
)
TELEMETRY_COLUMNS: tuple[Column, ...] = tuple(recorded(TelemetrySample).values())


def request_rows(requests: RequestTable, score: str | None = None) -> pa.Table:
    """Return the rows of `request_records`; `score` says how answers are scored."""
    rows = requests.arrow.append_column("is_completed", pa.array(requests.is_completed))
    for name, (_, latency_ms) in _COMPUTED.items():
        rows = rows.append_column(name, pa.array(latency_ms(requests), from_pandas=True))
    context = pa.array(context_steps(requests), from_pandas=True).cast(_CONTEXT.types[1])
    rows = rows.append_column(_CONTEXT.name, context)
    return rows.append_column(_SCORE.name, pa.array(scores(score, requests), from_pandas=True))


def prompt_latencies(requests: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return a row of PROMPT_LATENCY_COLUMNS and one of PROMPT_LIST_COLUMNS from a run's `request_records`.

    There are no rows if no request completed.
    """
    wanted: list[Any] = [("index", "min"), *((name, "mean") for name in _LATENCIES)]
    narrow = requests.select(["index", "prompt_id", *_LATENCIES])  # the other columns are nearly all of the bytes
    grouped = narrow.filter(requests["is_completed"]).group_by("prompt_id", use_threads=False).aggregate(wanted)
    if not grouped.num_rows:
        return rows(PROMPT_LATENCY_COLUMNS, []), rows(PROMPT_LIST_COLUMNS, [])
    by_prompt = grouped.sort_by("index_min")
    prompts = by_prompt["prompt_id"]
    lines: list[Any] = prompts.to_pylist()
    key = pa.array([hashlib.sha256("\n".join(lines).encode()).hexdigest()], type=pa.string())
    latencies = {name: _as_one_list(by_prompt[f"{name}_mean"]) for name in _LATENCIES}
    return pa.table({"prompts_id": key, **latencies}), pa.table(
        {"prompts_id": key, "prompt_ids": _as_one_list(prompts)}
    )


def _as_one_list(values: pa.ChunkedArray[Any]) -> pa.ListArray[Any]:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], type=pa.int32()), values.combine_chunks())


def requests_of(latencies: pa.Table, lists: pa.Table) -> dict[str, Requests]:
    """Return the latencies of one run by name from what `prompt_latencies` returns; empty if no request completed."""
    if not latencies.num_rows:
        return {}
    prompts = tuple(lists["prompt_ids"][0].values.to_pylist())
    return {name: _known(prompts, latencies[name][0]) for name in _LATENCIES}


def read_prompt_latencies(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str], latency: str) -> dict[str, Requests]:
    """Return the latencies by run_id. Runs of the same prompts share one tuple, so that comparing them is free."""
    table = con.execute(_NUMBERS.format(latency=latency), [list(run_ids)]).to_arrow_table()
    ids: list[Any] = table["run_id"].to_pylist()
    keys = table["prompts_id"].to_pylist()
    prompts = {key: tuple(listed) for key, listed in con.execute(_PROMPTS, [list(set(keys))]).fetchall()}
    lists = zip(ids, keys, table["numbers"], strict=True)
    return {run_id: _known(prompts[key], numbers) for run_id, key, numbers in lists}


def _known(prompts: tuple[str, ...], numbers: Any) -> Requests:
    values = numbers.values.to_numpy(zero_copy_only=False)  # NaN for null
    are_known = ~np.isnan(values)
    if are_known.all():
        return Requests(prompts, values)
    return Requests(tuple(p for p, is_known in zip(prompts, are_known, strict=True) if is_known), values[are_known])
