"""Judges a study by every metric that decides, and gives the verdicts the form in which they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import duckdb

from lab.comparison import ANALYSIS_VERSION
from lab.comparison.verdict import Judged, Verdict
from lab.errors import QueryError
from warehouse.bundles.judgements import Cause, Judgement, StoredArm, StoredMean, StoredMetric, StoredPair, StoredRun
from warehouse.queries.comparing.comparisons import StudyComparison, compute_study
from warehouse.queries.comparing.paired_runs import ArmRuns, CellKey
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.comparing.stored import DECIDING, fields_of

#: The runs that comparisons read.
_RUNS = """
    SELECT run_id, study_name FROM valid_latest_runs
    WHERE job_id = ? AND concurrency IS NOT NULL AND pattern IS NOT NULL ORDER BY run_id
"""
_Place = tuple[CellKey, str]


def judge_ended(con: duckdb.DuckDBPyConnection, job_id: str, tries: int, ended_at: datetime) -> Judgement:
    """Judge a job as of the moment it ended: the history ends when its first run began."""
    return _judge(con, job_id, "ended", tries, ended_at)


def judge_again(con: duckdb.DuckDBPyConnection, job_id: str) -> Judgement:
    """Judge a job with the history and the analysis of today. Raises QueryError if nothing can be compared."""
    now = datetime.now(UTC)
    judgement = _judge(con, job_id, "asked", None, now)
    if not judgement.metrics:
        raise QueryError(f"{job_id} has nothing to judge: it needs valid runs of its baseline and of another arm")
    return judgement


def _judge(
    con: duckdb.DuckDBPyConnection,
    job_id: str,
    cause: Cause,
    tries: int | None,
    as_of: datetime,
) -> Judgement:
    """Judge by each metric that has pairs; a cost has none without a price."""
    history_until = as_of if cause == "asked" else None
    compared: list[StudyComparison] = []
    for metric in DECIDING:
        try:
            comparison = compute_study(con, [job_id], metric, history_until=history_until)
        except QueryError:
            continue
        if any(pair.ratio is not None for pair in comparison.pairs):
            compared.append(comparison)
    arms = _arms(compared[0]) if compared else {}
    runs = con.execute(_RUNS, [job_id]).fetchall()
    return Judgement(
        job_id=job_id,
        study=runs[0][1] if runs else job_id,
        cause=cause,
        tries=tries,
        as_of=as_of,
        judged_at=datetime.now(UTC),
        analysis_version=ANALYSIS_VERSION,
        run_ids=tuple(run_id for run_id, _ in runs),
        arms=tuple(map(_arm, arms.values())),
        metrics=tuple(_metric(comparison, list(arms)) for comparison in compared),
    )


def _arms(comparison: StudyComparison) -> dict[_Place, ArmRuns]:
    both = [arm for pair in comparison.pairs for arm in (pair.baseline, pair.candidate)]
    return {(arm.cell, arm.arm): arm for arm in both}


def _arm(arm: ArmRuns) -> StoredArm:
    own = {name: getattr(arm, name) for name in StoredArm.model_fields if name not in ("runs", *vars(arm.cell))}
    runs = tuple(
        StoredRun(
            run_id=run.run_id, block=_parts(run.block), launch=_parts(run.launch), until_decided=run.until_decided
        )
        for run in arm.runs
    )
    return StoredArm(**vars(arm.cell), **own, runs=runs)


def _parts(key: Any) -> Any:
    return None if key is None else tuple(key)


def _metric(comparison: StudyComparison, places: Sequence[_Place]) -> StoredMetric:
    arms, position = _arms(comparison), {place: number for number, place in enumerate(places)}
    usual = arm_means(replace(comparison, strict=False))
    strict = arm_means(replace(comparison, strict=True))
    return StoredMetric(
        metric=comparison.metric,
        unit=comparison.unit,
        baseline=comparison.baseline,
        history_jobs=comparison.history_jobs,
        values=tuple(tuple(run.value for run in arms[place].runs) for place in places),
        pairs=tuple(
            StoredPair(
                baseline=position[pair.cell, pair.baseline.arm],
                candidate=position[pair.cell, pair.candidate.arm],
                **_verdicts(pair, pair.strictly),
            )
            for pair in comparison.pairs
        ),
        means=tuple(StoredMean(arm=arm, **_verdicts(mean, strict[arm].verdict)) for arm, mean in usual.items()),
    )


def _verdicts(usual: Judged, strict: Verdict) -> dict[str, dict[str, Any]]:
    return {
        "comparison": fields_of(usual.comparison),
        "usual": fields_of(usual.verdict),
        "strict": fields_of(strict),
    }
