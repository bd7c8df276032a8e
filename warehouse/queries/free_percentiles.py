"""Any percentile of the latencies of a run's requests, apart from those that are metrics of a run.

A percentile is named like a metric: `ttft_p97.5_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import pandas as pd

from lab.metrics.catalogue import LATENCIES
from lab.metrics.histogram import quantile
from warehouse.queries.results import COMPARABLE, frame

_NAME = re.compile(rf"({'|'.join(LATENCIES)})_p(\d{{1,2}}(?:\.\d{{1,3}})?)_ms")
#: Latencies with one value per request, which the view `requests` has, and which answers have one.
_OF_REQUESTS = {
    "ttft": "completion_tokens >= 1",
    "tpot": "completion_tokens >= 2 OR completion_tokens IS NULL",
    "e2e": "true",
}


def name_of(latency: str, percent: float) -> str:
    """`percent`: above 0 and below 100, with at most three decimals."""
    return f"{latency}_p{percent:g}_ms"


def is_free(name: str) -> bool:
    """Return whether it is a percentile that no run has as a metric."""
    return name not in COMPARABLE and _NAME.fullmatch(name) is not None


def of_runs(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str], name: str) -> pd.Series:
    """Return the percentile in ms by run; runs without single requests, or with an unknown one, are left out.

    Latencies of requests are exact, linear between neighbours; latencies of tokens and chunks come from the runs'
    histograms, which are exact to half a per cent.
    """
    latency, _, percent = name.removesuffix("_ms").partition("_p")
    share = float(percent) / 100
    if latency in _OF_REQUESTS:
        exact = _EXACT.format(latency=latency, has_one=_OF_REQUESTS[latency])
        rows = frame(con, exact, [share, list(run_ids)])
        return rows.set_index("run_id")["value"].dropna()
    counts = frame(con, _COUNTS, [latency, list(run_ids)])
    values = {
        str(run_id): quantile(dict(zip(own["bucket"], own["count"], strict=True)), share)
        for run_id, own in counts.groupby("run_id")
    }
    return pd.Series(values, dtype=float)


_EXACT = """
    SELECT run_id, quantile_cont({latency}_ms, $1::DOUBLE) AS value FROM requests
    WHERE run_id IN (SELECT unnest($2::TEXT[])) AND is_completed GROUP BY run_id
    HAVING bool_and({latency}_ms IS NOT NULL OR NOT coalesce({has_one}, false))
"""
_COUNTS = """
    SELECT run_id, bucket, count FROM histograms WHERE metric = $1 AND run_id IN (SELECT unnest($2::TEXT[]))
"""
