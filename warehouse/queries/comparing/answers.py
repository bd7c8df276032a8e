"""A study's answer and where its numbers come from: from a comparison and the runs behind it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import duckdb

from lab.advice.answer import Answer, JudgedPair, OverAll, answer
from lab.advice.metric_lines import METRICS
from lab.advice.report import Provenance
from lab.errors import QueryError
from warehouse.queries.comparing.comparisons import StudyComparison, compare_study, controls
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.comparing.tunings import answered
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
    return Provenance(jobs=comparison.jobs, repeats=tuple(sorted(repeats)), standing=comparison.standing, **row | lists)
