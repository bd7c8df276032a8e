"""What advice stands on: each speculating arm against the baseline, with its acceptance, read from the warehouse."""

from __future__ import annotations

import duckdb

from lab.advise import Measured
from warehouse.comparisons import Pair, StudyComparison, compare_study

_ACCEPTANCE = """
    SELECT sum(num_accepted_tokens) / nullif(sum(num_draft_tokens), 0),
        1 + sum(num_accepted_tokens) / nullif(sum(num_drafts), 0),
        sum(completion_tokens) / nullif(sum(requests_completed), 0)
    FROM results WHERE run_id IN (SELECT unnest(?))
"""


def measured(con: duckdb.DuckDBPyConnection, study: str) -> list[Measured]:
    """Of valid runs. Raises QueryError for a study that is not there, or has no valid baseline."""
    return measured_of(con, compare_study(con, study))


def measured_of(con: duckdb.DuckDBPyConnection, found: StudyComparison) -> list[Measured]:
    """Of a comparison by throughput."""
    return [_measured(con, pair) for pair in found.pairs if pair.candidate.num_speculative_tokens]


def _measured(con: duckdb.DuckDBPyConnection, pair: Pair) -> Measured:
    candidate, ratio = pair.candidate, pair.comparison.ratio
    ids = tuple(run.run_id for run in candidate.runs)
    rate, length, tokens = con.execute(_ACCEPTANCE, [list(ids)]).fetchone() or (None, None, None)
    return Measured(
        workload=pair.place.workload,
        concurrency=pair.place.concurrency,
        arm=candidate.arm,
        method=candidate.method or "",
        gamma=candidate.num_speculative_tokens or 0,
        speedup=None if ratio is None else ratio.value,
        low=None if ratio is None else ratio.low,
        high=None if ratio is None else ratio.high,
        outcome=pair.verdict.word,
        acceptance_rate=rate,
        acceptance_length=length,
        output_tokens=tokens,
        more_repeats=pair.verdict.more_repeats,
        pattern=pair.place.pattern,
        run_ids=ids + tuple(run.run_id for run in pair.baseline.runs),
    )
