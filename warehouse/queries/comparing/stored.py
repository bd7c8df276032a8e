"""Stored verdicts, as pages and the command read them: which there are, what they say, and whether they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import duckdb
import numpy as np
from pydantic import TypeAdapter

from lab.comparison.compare import Comparison
from lab.comparison.effect import Effect, Interval
from lab.comparison.spread import Spread
from lab.comparison.verdict import Judged, Verdict
from lab.metrics.catalogue import COST
from warehouse.bundles.judgements import Judgement, StoredArm, StoredMetric, StoredVerdict
from warehouse.queries.rows import dicts
from warehouse.schema.views import judgings as judgings_query

#: The metrics that decide: their verdicts are stored. Pages offer these, the default first.
DECIDING = (
    *("output_tok_per_s", "total_tok_per_s", "request_per_s", "goodput_request_per_s"),
    *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms"),
    COST.name,
)
#: Chooses the judgement made when the job ended.
FIRST = "first"
_ARMS = TypeAdapter(tuple[StoredArm, ...])
_INTERVALS, _EFFECT = ("ratio", "difference", "interval"), "effect"
_OF_JOB = f"""
    SELECT judgement_id, cause, as_of, judged_at, analysis_version, changed_because, is_default
    FROM ({judgings_query("job_id = $1")}) ORDER BY judged_at, judgement_id
"""  # noqa: S608 - no user's text is in it
_JUDGEMENTS = "SELECT * FROM judgements WHERE list_contains(?, job_id) ORDER BY judgement_id"
_ANSWERS = """
    SELECT judgement_id, answer_json FROM judged_metrics JOIN judgements USING (judgement_id)
    WHERE list_contains(?, job_id)
"""
_ANSWER = """
    SELECT arms_json, answer_json FROM judged_metrics JOIN judgements USING (judgement_id)
    WHERE judgement_id = ? AND metric = ?
"""


@dataclass(frozen=True)
class Judging:
    """When a job was judged, and what became of its runs since. `is_default`: pages show it if none is chosen."""

    judgement_id: str
    cause: str
    as_of: datetime
    judged_at: datetime
    analysis_version: int
    changed_because: str | None
    is_default: bool

    @property
    def label(self) -> str:
        """`when the study ended, 2026-11-26 22:05 UTC`, to choose from."""
        when = "when the study ended" if self.cause == "ended" else "judged again"
        return f"{when}, {self.as_of:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def sentence(self) -> str:
        return f"verdicts as of {self.as_of:%Y-%m-%d %H:%M} UTC, {_WHY[self.cause]} (analysis {self.analysis_version})"


_WHY = {"ended": "when the study ended", "asked": "when it was judged again"}
#: Of a comparison without a stored verdict.
NOT_STORED = (
    "computed now from the study's runs and the history of when it began: no verdict is stored for this question"
)


def multiplicity(*, strict: bool) -> str:
    """Say what the verdicts by one metric allow for the others."""
    if strict:
        return (
            f"each metric is a table of its own: over up to {len(DECIDING)} metrics that decide, the chances of "
            "a false call add up"
        )
    return f"each of up to {len(DECIDING)} metrics that decide is a table of its own, and not corrected for the others"


@dataclass(frozen=True)
class Stored:
    """A stored answer by one metric. `means` are the arms over all cells, in both readings."""

    judging: Judging
    arms: tuple[StoredArm, ...]
    answer: StoredMetric

    def means(self, *, strict: bool) -> dict[str, Judged]:
        """Return the candidates over all of their cells."""
        return {mean.arm: Judged(comparison_of(mean), verdict_of(mean, strict=strict)) for mean in self.answer.means}


def judgings(con: duckdb.DuckDBPyConnection, jobs: Sequence[str]) -> list[Judging]:
    """Return when a job was judged, oldest first; none for several jobs together."""
    return [Judging(**row) for row in dicts(con, _OF_JOB, list(jobs))] if len(jobs) == 1 else []


def stored_answer(con: duckdb.DuckDBPyConnection, judging: Judging, metric: str) -> Stored | None:
    """Return what the judgement says by a metric; None if it does not say."""
    row = con.execute(_ANSWER, [judging.judgement_id, metric]).fetchone()
    if row is None:
        return None
    return Stored(judging, _ARMS.validate_json(row[0]), StoredMetric.model_validate_json(row[1]))


def judgements_of(con: duckdb.DuckDBPyConnection, jobs: Sequence[str]) -> list[Judgement]:
    """Return the judgements of these jobs whole, as they are in their files."""
    answers: dict[str, list[StoredMetric]] = {}
    for judgement_id, answer in con.execute(_ANSWERS, [list(jobs)]).fetchall():
        answers.setdefault(judgement_id, []).append(StoredMetric.model_validate_json(answer))
    return [
        Judgement(
            **{name: row[name] for name in Judgement.model_fields if name in row},
            arms=_ARMS.validate_json(row["arms_json"]),
            metrics=tuple(sorted(answers.get(row["judgement_id"], ()), key=lambda of: DECIDING.index(of.metric))),
        )
        for row in dicts(con, _JUDGEMENTS, [list(jobs)])
    ]


def fields_of(record: Comparison | Verdict) -> dict[str, Any]:
    """Return the fields of a comparison or a verdict as JSON values; infinite numbers are texts."""
    return {name: _plain(value) for name, value in vars(record).items()}


def comparison_of(stored: StoredVerdict) -> Comparison:
    return Comparison(**_fields(Comparison, stored.comparison))


def verdict_of(stored: StoredVerdict, *, strict: bool) -> Verdict:
    return Verdict(**_fields(Verdict, stored.strict if strict else stored.usual))


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return vars(value)
    if isinstance(value, Effect):
        return {"value": value.value, "spread": _plain(value.spread)}
    if isinstance(value, Spread):
        numbers = {name: number if isinstance(number, int) else float(number) for name, number in vars(value).items()}
        return {name: number if np.isfinite(number) else str(number) for name, number in numbers.items()}
    return value


def _fields(record: type[Comparison | Verdict], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the record. One that is newer than the stored verdict has its default."""
    known = {field.name for field in fields(record)}
    return {name: _read(name, value) for name, value in stored.items() if name in known}


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _INTERVALS:
        return Interval(**value)
    if name == _EFFECT:
        return Effect(value["value"], None if value["spread"] is None else _spread(**value["spread"]))
    return value


def _spread(blocks: float | str, blocks_df: float | str, rest: float | str, rest_df: float | str) -> Spread:
    variances = [np.asarray(float(variance)) for variance in (blocks, rest)]
    dfs = [float(df) if isinstance(df, str) else df for df in (blocks_df, rest_df)]
    return Spread(variances[0], dfs[0], variances[1], dfs[1])
