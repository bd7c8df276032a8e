"""The latencies of a run's prompts in one row: what comparisons read, where single requests would be millions of rows.

A prompt that a run sent several times has the mean of them, because prompts are what is paired. Which prompts they are
is written once for all runs that sent the same ones: a list of texts takes longer to read than all their latencies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lab.comparison.samples import Requests
from warehouse.schema.column import column, keyed, rows

_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
_PROMPTS_ID = column("prompts_id", "text", "SHA-256 of a list of prompt_ids, each on a line")
LIST_COLUMNS = (
    _PROMPTS_ID,
    column("prompt_ids", "texts", "the prompts that a run got whole answers to, in the order of sending"),
)
COLUMNS = (
    _PROMPTS_ID,
    *(
        column(
            name, "doubles", f"{name} of each of prompt_ids; the mean where it was sent several times, null: unknown"
        )
        for name in _LATENCIES
    ),
)


def prompt_latencies(requests: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A row of COLUMNS and one of LIST_COLUMNS, from a run's `request_records`; none where nothing was answered."""
    wanted: list[Any] = [("index", "min"), *((name, "mean") for name in _LATENCIES)]
    grouped = requests.filter(requests["is_completed"]).group_by("prompt_id").aggregate(wanted)
    found = grouped.sort_by("index_min").to_pydict()
    prompts = found["prompt_id"]
    row = {"prompts_id": hashlib.sha256("\n".join(prompts).encode()).hexdigest(), "prompt_ids": prompts}
    row |= {name: found[f"{name}_mean"] for name in _LATENCIES}
    there = [row] if prompts else []
    return rows(keyed(COLUMNS), there), rows(keyed(LIST_COLUMNS), there)


def read(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str], latency: str) -> dict[str, Requests]:
    """By run_id. Runs that sent the same share one tuple of prompts, so that telling so takes no time."""
    question = _NUMBERS.format(latency=latency, runs=", ".join("?" * len(run_ids)))
    table = con.execute(question, list(run_ids)).to_arrow_table()
    ids: list[Any] = table["run_id"].to_pylist()
    keys = table["prompts_id"].to_pylist()
    prompts = {key: tuple(listed) for key, listed in con.execute(_PROMPTS, [list(set(keys))]).fetchall()}
    found = zip(ids, keys, table["numbers"], strict=True)
    return {run_id: _known(prompts[key], numbers) for run_id, key, numbers in found}


def _known(prompts: tuple[str, ...], numbers: Any) -> Requests:
    values = numbers.values.to_numpy(zero_copy_only=False)  # NaN for null
    there = ~np.isnan(values)
    if there.all():
        return Requests(prompts, values)
    return Requests(tuple(p for p, is_there in zip(prompts, there, strict=True) if is_there), values[there])


#: The ids one by one: only then DuckDB asks the index, and reads the lists of these runs alone.
_NUMBERS = "SELECT run_id, prompts_id, {latency} AS numbers FROM prompt_latencies WHERE run_id IN ({runs})"
_PROMPTS = "SELECT prompts_id, prompt_ids FROM prompt_lists WHERE prompts_id IN (SELECT unnest(?))"
