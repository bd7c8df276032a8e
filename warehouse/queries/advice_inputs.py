"""Inputs of advice: each speculating arm against the baseline, its runs, and the arms that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import duckdb

from lab.advice.advise import Failed, Figures, Measured
from lab.advice.prediction import SpeculatedRun
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.rows import Row, dicts

_POOLED = """
    SELECT position, drafted,
        sum(num_accepted_tokens) / nullif(sum(num_draft_tokens) FILTER (num_accepted_tokens IS NOT NULL), 0) AS rate,
        1 + sum(num_accepted_tokens) / nullif(sum(num_drafts) FILTER (num_accepted_tokens IS NOT NULL), 0) AS length,
        sum(completion_tokens) / nullif(sum(requests_completed) FILTER (completion_tokens IS NOT NULL), 0)
            AS output_tokens,
        median(tpot_p50_ms) AS tpot_ms, max(gpu_memory_used_max_bytes)::DOUBLE AS gpu_memory_bytes,
        max(kv_cache_usage_max) AS kv_cache_usage, any_value(concat_ws(' ', engine, engine_version)) AS engine
    FROM (SELECT unnest($1) AS position, unnest($2) AS drafted, unnest($3) AS run_id) JOIN results USING (run_id)
    GROUP BY position, drafted
"""
#: The last attempt at a cell counts, whether or not it failed (unlike in valid_latest_runs).
_FAILED = """
    WITH last AS (
        SELECT * FROM results
        WHERE list_contains(?, job_id) AND num_speculative_tokens IS NOT NULL AND search IS NULL
        QUALIFY row_number() OVER (PARTITION BY job_id, cell_key ORDER BY attempt DESC, started_at DESC) = 1
    )
    SELECT workload_label AS workload, concurrency, arm, coalesce(method, '') AS method,
        num_speculative_tokens AS gamma, pattern,
        coalesce(arg_min(error, run_id), 'no reason was recorded') AS error, list(run_id ORDER BY run_id) AS run_ids
    FROM last WHERE status = 'failed' AND concurrency IS NOT NULL AND pattern IS NOT NULL
    GROUP BY ALL ORDER BY ALL
"""


_FIGURES = tuple(field.name for field in fields(Figures))


def measured_arms(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[Measured]:
    """Return a throughput comparison's speculating arms per cell, with the acceptance of the compared runs.

    Without controls: there is nothing to decide between identical arms.
    """
    pairs = [pair for pair in comparison.pairs if pair.candidate.num_speculative_tokens and not pair.comparison.control]
    return [_measured(pair, pooled) for pair, pooled in zip(pairs, _pooled(con, pairs), strict=True)] if pairs else []


def failed_arms(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[Failed]:
    """Return the speculating arms of its jobs that failed, per cell."""
    rows = dicts(con, _FAILED, [list(comparison.jobs)])
    return [Failed(**row | {"run_ids": tuple(row["run_ids"])}) for row in rows]


def _pooled(con: duckdb.DuckDBPyConnection, pairs: Sequence[Pair]) -> list[tuple[Row, Row]]:
    """Pool the figures of each candidate's runs and of its baseline's, in one query because a page waits for it."""
    runs = [
        (index, arm is pair.candidate, run.run_id)
        for index, pair in enumerate(pairs)
        for arm in (pair.candidate, pair.baseline)
        for run in arm.runs
    ]
    rows = dicts(con, _POOLED, [list(column) for column in zip(*runs, strict=True)])
    row_of = {(row["position"], row["drafted"]): row for row in rows}
    return [(row_of[index, True], row_of[index, False]) for index in range(len(pairs))]


def _measured(pair: Pair, pooled: tuple[Row, Row]) -> Measured:
    candidate, ratio, word = pair.candidate, pair.ratio, pair.verdict.word
    if word == "control":
        raise ValueError(f"{candidate.arm} is a control: advice is about arms that differ from the baseline")
    ids = tuple(run.run_id for run in candidate.runs)
    ours, theirs = pooled
    return Measured(
        workload=pair.cell.workload,
        concurrency=pair.cell.concurrency,
        arm=candidate.arm,
        method=candidate.method or "",
        gamma=candidate.num_speculative_tokens or 0,
        speedup=None if ratio is None else ratio.value,
        low=None if ratio is None else ratio.low,
        high=None if ratio is None else ratio.high,
        outcome=word,
        acceptance_rate=ours["rate"],
        acceptance_length=ours["length"],
        output_tokens=ours["output_tokens"],
        pattern=pair.cell.pattern,
        own=Figures(**{name: ours[name] for name in _FIGURES}),
        baseline=Figures(**{name: theirs[name] for name in _FIGURES}),
        run_ids=ids + tuple(run.run_id for run in pair.baseline.runs),
    )


_ACCEPTANCE = """
    SELECT run_id, acceptance_length, acceptance_per_position[1] AS first_position
    FROM run_metrics WHERE run_id IN (SELECT unnest(?))
"""


def speculated_runs(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[SpeculatedRun]:
    """Return a throughput comparison's speculating runs, each with its own speed-up, in the order of the pairs."""
    pairs = [pair for pair in comparison.pairs if pair.candidate.num_speculative_tokens]
    ids = [run.run_id for pair in pairs for run in pair.candidate.runs]
    accepted = {row["run_id"]: row for row in dicts(con, _ACCEPTANCE, [ids])}
    return [run for pair in pairs for run in _runs(pair, accepted)]


def _runs(pair: Pair, accepted: dict[str, Row]) -> list[SpeculatedRun]:
    base = {run.block: run.value for run in pair.baseline.runs}
    return [
        SpeculatedRun(
            run_id=run.run_id,
            workload=pair.cell.workload,
            pattern=pair.cell.pattern,
            concurrency=pair.cell.concurrency,
            arm=pair.candidate.arm,
            method=pair.candidate.method or "",
            gamma=pair.candidate.num_speculative_tokens or 0,
            first_position=accepted[run.run_id]["first_position"],
            acceptance_length=accepted[run.run_id]["acceptance_length"],
            speedup=run.value / before if run.value and (before := base.get(run.block)) else None,
        )
        for run in pair.candidate.runs
    ]
