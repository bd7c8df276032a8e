"""One slice over all requests by Drafthouse's aggregates and by pandas in memory: equal results, and the time of each.

The slice: p50 and p95 of TTFT by arm and concurrency, and output throughput (mean over runs) by arm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.table import Row, show, wall_ms
from host.settings import Settings
from lab.errors import DrafthouseError
from lab.metrics import histogram
from warehouse.queries.connect import open_warehouse
from warehouse.queries.results import frame

#: The values of the slice, by (arm, concurrency) or by (arm,).
Answer = dict[tuple[object, ...], tuple[float, ...]]
_QUANTILES = (0.5, 0.95)
#: The accuracy of the histograms, with some room for percentiles between two neighbours.
_APART = 0.01
_ROWS = "SELECT run_id, arm, concurrency, ttft_ms, completion_tokens, end_s FROM requests"


def run(settings: Settings, repeats: int, about: str) -> None:
    """Print both slices beside pandas. Raises DrafthouseError if their results differ."""
    ours = {"TTFT p50, p95 ms": partial(_our_ttft, settings), "output tok/s ms": partial(_our_throughput, settings)}
    with open_warehouse(settings.warehouse_file) as connection:
        table = frame(connection, _ROWS)
    table["arm"], table["run_id"] = table["arm"].astype("category"), table["run_id"].astype("category")
    theirs = {"TTFT p50, p95 ms": partial(_pandas_ttft, table), "output tok/s ms": partial(_pandas_throughput, table)}
    show(f"Slices: {about}", "pandas, in memory", [_row(name, ours[name], theirs[name], repeats) for name in ours])


def _row(name: str, ours: Callable[[], Answer], theirs: Callable[[], Answer], repeats: int) -> Row:
    _check(name, ours(), theirs())
    return Row(name, [wall_ms(ours) for _ in range(repeats)], [wall_ms(theirs) for _ in range(repeats)], "below 1")


def _check(name: str, ours: Answer, theirs: Answer) -> None:
    for key, numbers in ours.items():
        for value, other in zip(numbers, theirs[key], strict=True):
            if abs(value - other) > _APART * abs(other):
                raise DrafthouseError(f"{name} of {key}: {value} by Drafthouse and {other} by the rival")
    if len(ours) != len(theirs):
        raise DrafthouseError(f"{name}: {len(ours)} groups by Drafthouse and {len(theirs)} by the rival")


def _our_ttft(settings: Settings) -> Answer:
    with open_warehouse(settings.warehouse_file) as connection:
        rows = connection.execute(_OUR_TTFT).fetchall()
    return {
        (arm, streams): _quantiles(dict(zip(buckets, counts, strict=True))) for arm, streams, buckets, counts in rows
    }


def _quantiles(counts: dict[int, int]) -> tuple[float, ...]:
    return tuple(histogram.quantile(counts, q) or 0.0 for q in _QUANTILES)


def _our_throughput(settings: Settings) -> Answer:
    with open_warehouse(settings.warehouse_file) as connection:
        return _by_arm(connection.execute(_OUR_THROUGHPUT).fetchall())


def _pandas_ttft(table: pd.DataFrame) -> Answer:
    quantiles = table.groupby(["arm", "concurrency"], observed=True)["ttft_ms"].quantile(np.array(_QUANTILES))
    numbers = quantiles.to_numpy().reshape(-1, len(_QUANTILES)).tolist()
    return {key[:2]: tuple(row) for key, row in zip(quantiles.index[:: len(_QUANTILES)], numbers, strict=True)}


def _pandas_throughput(table: pd.DataFrame) -> Answer:
    runs = table.groupby(["arm", "run_id"], observed=True).agg({"completion_tokens": "sum", "end_s": "max"})
    means = (runs["completion_tokens"] / runs["end_s"]).groupby("arm", observed=True).mean()
    return _by_arm(list(means.items()))


def _by_arm(rows: list[tuple[object, float]]) -> Answer:
    return {(arm,): (float(number),) for arm, number in rows}


_OUR_THROUGHPUT = "SELECT arm, avg(output_tok_per_s) FROM results WHERE origin = 'measured' GROUP BY arm"
_OUR_TTFT = """
    SELECT arm, concurrency, list(bucket), list(number) FROM (
        SELECT arm, concurrency, bucket, sum(count)::BIGINT AS number
        FROM histograms JOIN runs USING (run_id) WHERE metric = 'ttft' GROUP BY ALL
    ) GROUP BY ALL
"""
