"""The runs of a comparison that speculate, each with its own speed-up, for `lab.advice.prediction`."""

from __future__ import annotations

import duckdb

from lab.advice.prediction import SpeculatedRun
from warehouse.queries.comparisons import Pair, StudyComparison
from warehouse.queries.paired_runs import Row, dicts

_ACCEPTANCE = """
    SELECT run_id, acceptance_length, acceptance_per_position[1] AS first_position
    FROM run_metrics WHERE run_id IN (SELECT unnest(?))
"""


def speculated_runs(con: duckdb.DuckDBPyConnection, found: StudyComparison) -> list[SpeculatedRun]:
    """Of a comparison by throughput, in the order of its pairs and repeats."""
    pairs = [pair for pair in found.pairs if pair.candidate.num_speculative_tokens]
    ids = [run.run_id for pair in pairs for run in pair.candidate.runs]
    accepted = {row["run_id"]: row for row in dicts(con, _ACCEPTANCE, [ids])}
    return [run for pair in pairs for run in _runs(pair, accepted)]


def _runs(pair: Pair, accepted: dict[str, Row]) -> list[SpeculatedRun]:
    base = {run.block: run.value for run in pair.baseline.runs}
    return [
        SpeculatedRun(
            run_id=run.run_id,
            workload=pair.place.workload,
            pattern=pair.place.pattern,
            concurrency=pair.place.concurrency,
            arm=pair.candidate.arm,
            method=pair.candidate.method or "",
            gamma=pair.candidate.num_speculative_tokens or 0,
            first_position=accepted[run.run_id]["first_position"],
            acceptance_length=accepted[run.run_id]["acceptance_length"],
            speedup=run.value / before if run.value and (before := base.get(run.block)) else None,
        )
        for run in pair.candidate.runs
    ]
