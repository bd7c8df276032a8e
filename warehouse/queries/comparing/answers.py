"""A study's answer and where its numbers come from; and the newest study of each target, whose answer stands for it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import duckdb

from lab.advice.answer import Answer, JudgedPair, OverAll, answer
from lab.advice.metric_lines import METRICS
from lab.advice.report import Provenance
from lab.errors import QueryError
from lab.validity.words import lost_words
from warehouse.queries.comparing.comparisons import StudyComparison, compare_study, controls
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.comparing.tunings import answered
from warehouse.queries.results import lost_runs
from warehouse.queries.rows import dicts

_PROVENANCE = """
    SELECT any_value(study_name) AS study, any_value(target) AS target,
        list(DISTINCT hardware ORDER BY hardware) FILTER (hardware IS NOT NULL) AS hardware,
        list(DISTINCT concat_ws(' ', engine, engine_version) ORDER BY concat_ws(' ', engine, engine_version))
            FILTER (engine IS NOT NULL) AS engines,
        min(started_at) AS began, max(started_at) AS last_began, count(*) AS runs,
        count(DISTINCT (host, coalesce(taken_over_from, concat(job_id, '/', launch_index))))
            FILTER (launch_index IS NOT NULL) AS launches
    FROM valid_latest_runs WHERE list_contains(?, job_id)
"""


def metric_answers(con: duckdb.DuckDBPyConnection, study: str, *, strict: bool = False) -> list[Answer]:
    """Return a study's answer by each metric that has a line; none by a metric that cannot be compared, such as a cost
    without a price.
    """
    found = []
    for metric in METRICS:
        with suppress(QueryError):
            found.append(study_answer(answered(con, compare_study(con, study, metric, strict=strict))))
    return found


def study_answer(comparison: StudyComparison) -> Answer:
    """Return the answer from the comparison's verdicts; its headline is from the strict reading."""
    candidates = [pair for pair in comparison.pairs if not pair.comparison.control]
    pairs = [
        JudgedPair(
            pair.comparison,
            pair.verdict,
            pair.cell.workload,
            pair.cell.pattern,
            pair.cell.concurrency,
            pair.candidate.arm,
            pair.strictly,
        )
        for pair in candidates
    ]
    drafted = [(pair.baseline.num_speculative_tokens, pair.candidate.num_speculative_tokens) for pair in candidates]
    return answer(
        pairs,
        metric=comparison.metric,
        baseline=comparison.baseline,
        strict=comparison.strict,
        of_speculation=all(candidate and not baseline for baseline, candidate in drafted),
        controls=tuple(controls(comparison).values()),
        over_all=_over_all(comparison),
    )


def _over_all(comparison: StudyComparison) -> list[OverAll]:
    cells = Counter(pair.candidate.arm for pair in comparison.pairs)
    return [
        OverAll(arm, cells[arm], mean.ratio, mean.verdict.word)
        for arm, mean in arm_means(comparison).items()
        if cells[arm] > 1 and mean.ratio is not None and mean.verdict.word in ("faster", "slower")
    ]


def provenance(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> Provenance:
    """Return where the comparison's numbers come from: the valid runs of its jobs."""
    (row,) = dicts(con, _PROVENANCE, [list(comparison.jobs)])
    repeats = {pair.comparison.repeats for pair in comparison.pairs}
    lists = {name: tuple(row[name] or ()) for name in ("hardware", "engines")}
    failed, invalid = map(sum, zip((0, 0), *lost_runs(con, comparison.jobs).values(), strict=True))
    return Provenance(
        jobs=comparison.jobs,
        repeats=tuple(sorted(repeats)),
        lost=lost_words(failed, invalid),
        standing=comparison.standing,
        **row | lists,
    )


@dataclass(frozen=True)
class Headline:
    """The newest study of a target that was measured here with a baseline and another arm.

    `hardware` is None if its runs used several kinds.
    """

    target: str
    job_id: str
    study_name: str
    hardware: str | None
    measured_at: datetime


def headlines(con: duckdb.DuckDBPyConnection) -> list[Headline]:
    """Return one headline per target, from valid_latest_runs, the newest first."""
    return [Headline(**row) for row in dicts(con, _NEWEST)]


#: The newest is the one submitted last, as in the list of studies; one that is still being measured comes after those
#: that have ended.
_NEWEST = """
    SELECT r.target, r.job_id, any_value(r.study_name) AS study_name,
        CASE WHEN count(DISTINCT coalesce(r.hardware, '')) = 1 THEN any_value(r.hardware) END AS hardware,
        max(r.started_at) AS measured_at
    FROM valid_latest_runs AS r LEFT JOIN jobs AS j USING (job_id)
    WHERE r.origin = 'measured' AND r.concurrency IS NOT NULL AND r.pattern IS NOT NULL AND r.output_tok_per_s > 0
        AND NOT r.is_hidden
    GROUP BY r.target, r.job_id HAVING bool_or(r.is_baseline) AND bool_or(NOT r.is_baseline)
        AND count(DISTINCT coalesce(r.arm_id, r.arm)) > 1 -- controls alone are no answer
    QUALIFY row_number() OVER (
        PARTITION BY r.target
        ORDER BY coalesce(any_value(j.state) IN ('queued', 'running'), false),
            coalesce(any_value(j.submitted_at), min(r.started_at)) DESC, r.job_id DESC) = 1
    ORDER BY measured_at DESC, r.target
"""
