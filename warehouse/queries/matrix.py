"""The acceptance of each draft by kind of text, compared with published golden lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from lab.comparison.acceptance import MatrixCell, length_over_prompts
from lab.published.golden import GoldenLength
from lab.study.workload import NO_TEXT
from warehouse.queries.comparing.paired_runs import jobs_of

#: The mode of InferenceX's files; what a study measured is in neither unless its own template says so.
MEASURED_MODE = "thinking_off"
_PROMPTS = """
    WITH chosen AS (
        SELECT run_id, target, arm, method, num_speculative_tokens AS k FROM valid_latest_runs
        WHERE list_contains($1, job_id) AND num_speculative_tokens IS NOT NULL
    ), prompts AS (
        SELECT target, arm, method, k, {category} AS category, coalesce(session_id, prompt_id) AS prompt,
            sum(spec_drafts)::BIGINT AS drafts, sum(spec_accepted_tokens)::BIGINT AS accepted
        FROM request_records JOIN chosen USING (run_id)
        WHERE list_contains((SELECT list(run_id) FROM chosen), run_id) AND is_completed AND spec_drafts > 0
            AND spec_accepted_tokens IS NOT NULL AND category IS DISTINCT FROM $2
        GROUP BY ALL
    )
    SELECT target, arm, method, k, category, list(drafts ORDER BY prompt), list(accepted ORDER BY prompt)
    FROM prompts WHERE category IS NOT NULL GROUP BY ALL ORDER BY target, arm, category
"""
#: The category of all texts together.
ALL = "all"


def acceptance_matrix(con: duckdb.DuckDBPyConnection, study: str) -> list[MatrixCell]:
    """Return each arm that speculates by category, over all workloads and loads of the study.

    Texts without a category are left out, and traces without texts. Empty where the server reports no request's
    rounds. Raises QueryError for an unknown study.
    """
    return _cells(con, study, "category")


def acceptance_of_arms(con: duckdb.DuckDBPyConnection, study: str) -> list[MatrixCell]:
    """Return each arm that speculates over all of its texts together, under the category `all`."""
    return _cells(con, study, f"'{ALL}'")


def _cells(con: duckdb.DuckDBPyConnection, study: str, category: str) -> list[MatrixCell]:
    rows = con.execute(_PROMPTS.format(category=category), [jobs_of(con, study), NO_TEXT]).fetchall()
    return [
        MatrixCell(target, arm, method, k, of, length, len(drafts), sum(drafts))
        for target, arm, method, k, of, drafts, accepted in rows
        if (length := length_over_prompts(drafts, accepted)) is not None
    ]


@dataclass(frozen=True)
class BesideGolden:
    """A golden length and a measured one of the same draft length; `ours` is None if there is none.

    `same_model`: the golden model's name is that of our target, without its owner.
    """

    golden: GoldenLength
    ours: MatrixCell | None
    same_model: bool

    @property
    def word(self) -> str:
        """Return in words whether our whole interval is above or below the golden length; empty without an interval."""
        length = None if self.ours is None else self.ours.length
        if length is None or length.low is None or length.high is None:
            return ""
        if self.golden.length > length.high:
            return "below"
        return "above" if self.golden.length < length.low else "no difference shown"


def beside_golden(golden: Sequence[GoldenLength], ours: Sequence[MatrixCell]) -> list[BesideGolden]:
    """Pair each golden length with every measured arm of the same draft length."""
    rows: list[BesideGolden] = []
    for length in golden:
        alike = [cell for cell in ours if cell.num_speculative_tokens == length.num_speculative_tokens]
        rows += [BesideGolden(length, cell, _name(cell.target) == _name(length.model)) for cell in alike]
        rows += [] if alike else [BesideGolden(length, None, same_model=False)]
    return rows


def _name(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1].lower()
