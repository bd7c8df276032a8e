"""Whether arms answer as well as the baseline: scores of the same prompts, and distributions of sampled completions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from lab.quality.distribution import LEAST, Difference, difference
from lab.quality.non_inferiority import Quality, quality
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.rows import records_of

#: A prompt that was sent several times counts by the mean of its scores.
_SCORES = """
    SELECT prompt_id, avg(score) FROM {records}
    WHERE run_id IN (SELECT unnest(?)) AND is_completed AND score IS NOT NULL GROUP BY prompt_id ORDER BY min(index)
"""
#: The completions of the prompt that was sent most often.
_COMPLETIONS = """
    SELECT prompt_id, list(output_text ORDER BY index) FROM {records} JOIN runs USING (run_id)
    WHERE run_id = ? AND is_completed AND temperature > 0
    GROUP BY prompt_id HAVING count(*) >= ? ORDER BY count(*) DESC, prompt_id LIMIT 1
"""


@dataclass(frozen=True)
class ArmQuality:
    """A candidate under one workload, over all its loads; what was not measured is None."""

    arm: str
    workload: str
    quality: Quality | None
    distribution: Difference | None


def qualities(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[ArmQuality]:
    """Judge each candidate under each workload that has scores or repeated samples; the others are left out."""
    pairs = sorted(comparison.pairs, key=_arm_and_workload)
    found = [_judged(con, *key, list(same)) for key, same in itertools.groupby(pairs, key=_arm_and_workload)]
    return [each for each in found if each.quality is not None or each.distribution is not None]


def sentences_of(found: ArmQuality) -> list[str]:
    """Describe the candidate, in one sentence for each kind of evidence."""
    return [each.sentence for each in (found.quality, found.distribution) if each is not None]


def _arm_and_workload(pair: Pair) -> tuple[str, str]:
    return pair.candidate.arm, pair.cell.workload


def _judged(con: duckdb.DuckDBPyConnection, arm: str, workload: str, pairs: Sequence[Pair]) -> ArmQuality:
    base = [run.run_id for pair in pairs for run in pair.baseline.runs]
    tried = [run.run_id for pair in pairs for run in pair.candidate.runs]
    ours, theirs = (
        dict(con.execute(_SCORES.format(records=records_of(con, runs)), [runs]).fetchall()) for runs in (base, tried)
    )
    return ArmQuality(arm, workload, quality(ours, theirs), _distribution(con, base, tried))


def _distribution(con: duckdb.DuckDBPyConnection, base: Sequence[str], tried: Sequence[str]) -> Difference | None:
    """Compare the first run of each arm: other repeats draw with the same seeds, so they add no samples."""
    if not base or not tried:
        return None
    ours, theirs = (
        con.execute(_COMPLETIONS.format(records=records_of(con, runs[:1])), [runs[0], LEAST]).fetchone()
        for runs in (base, tried)
    )
    if ours is None or theirs is None or ours[0] != theirs[0]:  # of different prompts
        return None
    return difference(ours[1], theirs[1])
