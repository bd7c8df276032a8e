"""Each arm in each cell of a job: its values, and its ratio to the baseline with the verdict on it."""

from __future__ import annotations

import duckdb
import pandas as pd

from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.comparing.paired_runs import known_metric
from warehouse.queries.results import frame

_CELL = ["arm", "workload", "pattern", "concurrency"]
_RATIOS = [*_CELL, "ratio", "low", "high", "verdict", "basis"]


def cell_values(con: duckdb.DuckDBPyConnection, job_id: str, metric: str) -> pd.DataFrame:
    """One row per arm and cell: arm, method, draft_model, num_speculative_tokens, is_baseline, workload, dataset,
    category, input_tokens, requested_output_tokens, pattern, concurrency, value (mean over repeats), values (of each
    repeat, first to last), repeats (with a value).

    Of valid_latest_runs. Raises QueryError for a metric that cannot be compared.
    """
    return frame(con, _VALUES.format(metric=known_metric(metric)), [job_id])


_VALUES = """
    SELECT arm, method, draft_model, num_speculative_tokens, coalesce(is_baseline, false) AS is_baseline,
        workload_label AS workload, coalesce(dataset, 'unknown') AS dataset, coalesce(category, 'all') AS category,
        input_tokens, requested_output_tokens, pattern, concurrency, avg("{metric}") AS value,
        coalesce(list("{metric}" ORDER BY repeat, started_at) FILTER ("{metric}" IS NOT NULL), []) AS values,
        count("{metric}") AS repeats
    FROM valid_latest_runs
    WHERE job_id = ? AND concurrency IS NOT NULL AND pattern IS NOT NULL -- an imported run may lack them
    GROUP BY ALL
    ORDER BY is_baseline DESC, arm, dataset, category, input_tokens, requested_output_tokens, workload, concurrency,
        pattern
"""


def with_ratios(values: pd.DataFrame, comparison: StudyComparison | None) -> pd.DataFrame:
    """Add to `cell_values`: ratio, low, high (its 95 % interval), verdict, basis (what these stand on).

    All are null for the baseline, where nothing is compared, and without a comparison.
    """
    pairs = () if comparison is None else comparison.pairs
    ratios = pd.DataFrame([_row(pair) for pair in pairs], columns=_RATIOS)
    ratios = ratios.astype({"concurrency": "int64", "ratio": float, "low": float, "high": float})
    return values.merge(ratios, how="left", on=_CELL)


def _row(pair: Pair) -> tuple[object, ...]:
    ratio = pair.ratio
    bounds = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    cell = (pair.candidate.arm, pair.cell.workload, pair.cell.pattern, pair.cell.concurrency)
    return (*cell, *bounds, pair.verdict.word, pair.comparison.basis)
