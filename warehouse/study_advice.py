"""What advice stands on: each speculating arm against the baseline, with its acceptance, read from the warehouse."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from lab.advise import Measured
from warehouse.comparisons import Pair, StudyComparison, compare_study

_ACCEPTANCE = """
    SELECT place, sum(num_accepted_tokens) / nullif(sum(num_draft_tokens), 0),
        1 + sum(num_accepted_tokens) / nullif(sum(num_drafts), 0),
        sum(completion_tokens) / nullif(sum(requests_completed), 0)
    FROM (SELECT unnest($1) AS place, unnest($2) AS run_id) JOIN results USING (run_id) GROUP BY place
"""
_Pooled = tuple[float | None, float | None, float | None]  # acceptance rate and length, output tokens a request


def measured(con: duckdb.DuckDBPyConnection, study: str) -> list[Measured]:
    """Of valid runs. Raises QueryError for a study that is not there, or has no valid baseline."""
    return measured_of(con, compare_study(con, study))


def measured_of(con: duckdb.DuckDBPyConnection, found: StudyComparison) -> list[Measured]:
    """Of a comparison by throughput."""
    pairs = [pair for pair in found.pairs if pair.candidate.num_speculative_tokens]
    return [_measured(pair, pooled) for pair, pooled in zip(pairs, _pooled(con, pairs), strict=True)] if pairs else []


def _pooled(con: duckdb.DuckDBPyConnection, pairs: Sequence[Pair]) -> list[_Pooled]:
    """Of each candidate's runs, in one question: a page waits for it."""
    runs = [(place, run.run_id) for place, pair in enumerate(pairs) for run in pair.candidate.runs]
    places, ids = [place for place, _ in runs], [run_id for _, run_id in runs]
    found = {place: numbers for place, *numbers in con.execute(_ACCEPTANCE, [places, ids]).fetchall()}
    return [(found[place][0], found[place][1], found[place][2]) for place in range(len(pairs))]


def _measured(pair: Pair, pooled: _Pooled) -> Measured:
    candidate, ratio = pair.candidate, pair.comparison.ratio
    ids = tuple(run.run_id for run in candidate.runs)
    rate, length, tokens = pooled
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
