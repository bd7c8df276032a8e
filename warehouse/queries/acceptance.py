"""Acceptance of a study's drafts: by arm and cell, by category, against the latency of requests, and over time.

From the server's counters, which count by position; else from the requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa

from lab.comparison.acceptance import (
    Acceptance,
    Counts,
    Moment,
    RankCorrelation,
    against_latency,
    by_category,
    drift,
    pooled,
    with_fewer_tokens,
)
from lab.comparison.samples import Array
from lab.errors import QueryError
from lab.study.workload import NO_TEXT
from warehouse.queries.comparing.paired_runs import CellKey, jobs_of
from warehouse.queries.rows import Row, dicts, parallel, records_of

Source = Literal["the server's counters", "its requests"]
LATENCIES = ("tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class ArmAcceptance:
    """A speculating arm in one cell, its repeats pooled.

    `fewer` has an estimate for each smaller number of drafted tokens; it is empty if positions are unknown.
    `categories` is empty if neither requests nor the workload name a category. `against` has the rank correlation of
    the acceptance length with each of LATENCIES over prompts (repeats averaged), None if it cannot be computed.
    """

    cell: CellKey
    arm: str
    method: str
    draft_model: str | None
    num_speculative_tokens: int
    acceptance: Acceptance
    source: Source
    fewer: Mapping[int, Acceptance]
    categories: Mapping[str, Acceptance]
    against: Mapping[str, RankCorrelation | None]
    run_ids: tuple[str, ...]


def study_acceptance(con: duckdb.DuckDBPyConnection, study: str) -> list[ArmAcceptance]:
    """Pool valid_latest_runs per cell and arm, in the order of workload, concurrency, pattern and arm.

    Raises QueryError for an unknown study, and for one without a valid speculating run.
    """
    jobs = jobs_of(con, study)
    cells: dict[tuple[object, ...], list[Row]] = {}
    for row in dicts(con, _RUNS, [jobs]):
        cells.setdefault(tuple(row[name] for name in ("workload", "pattern", "concurrency", "arm")), []).append(row)
    if not cells:
        raise QueryError(f"no valid run of {study!r} speculates, so there is no acceptance to show")
    run_ids = {cell: [row["run_id"] for row in rows] for cell, rows in enumerate(cells.values())}
    sums = _SUMS.format(records=records_of(con, [*itertools.chain(*run_ids.values())]))
    table = con.execute(sums, parallel(run_ids)).to_arrow_table()
    category_counts: dict[int, dict[str | None, Counts]] = {}
    for row in table.filter(table["of_category"]).to_pylist():
        category_counts.setdefault(row["cell"], {})[row["category"]] = _counts(row)
    correlations = _against(table.filter(table["of_prompt"]))
    return [
        _arm_acceptance(rows, category_counts.get(cell, {}), correlations.get(cell, {}))
        for cell, rows in enumerate(cells.values())
    ]


def _arm_acceptance(
    rows: Sequence[Row], category_counts: Mapping[str | None, Counts], against: Mapping[str, RankCorrelation | None]
) -> ArmAcceptance:
    first = rows[0]
    counted = [_counts(row) for row in rows if row["num_drafts"] and row["num_accepted_tokens"] is not None]
    acceptance = pooled(counted or list(category_counts.values()))
    k = first["num_speculative_tokens"]
    estimates = {fewer: with_fewer_tokens(acceptance, fewer) for fewer in range(1, k)}
    categories = by_category(list(category_counts.items())) or (
        {} if first["category"] == "all" else {first["category"]: acceptance}
    )
    return ArmAcceptance(
        cell=CellKey.of(first),
        arm=first["arm"],
        method=first["method"],
        draft_model=first["draft_model"],
        num_speculative_tokens=k,
        acceptance=acceptance,
        source="the server's counters" if counted else "its requests",
        fewer={fewer: estimate for fewer, estimate in estimates.items() if estimate is not None},
        categories=categories,
        against={name: against.get(name) for name in LATENCIES},
        run_ids=tuple(row["run_id"] for row in rows),
    )


def _counts(row: Row) -> Counts:
    positions = row.get("acceptance_per_position")
    drafts, drafted, accepted = row["num_drafts"], row["num_draft_tokens"], row["num_accepted_tokens"]
    return Counts(drafts, drafted, accepted, None if positions is None else tuple(positions))


def _against(table: pa.Table) -> dict[int, dict[str, RankCorrelation | None]]:
    """Return the correlations by the number of the cell and the name of the latency."""
    column = {name: table[name].to_numpy().astype(np.float64) for name in ("cell", "length", *LATENCIES)}
    begins = np.flatnonzero(np.diff(column["cell"], prepend=-1.0))
    parts = {name: np.split(column[name], begins[1:]) for name in ("length", *LATENCIES)}
    return {
        int(column["cell"][begin]): {name: _correlation(parts["length"][n], parts[name][n]) for name in LATENCIES}
        for n, begin in enumerate(begins)
    }


def _correlation(lengths: Array, latency_ms: Array) -> RankCorrelation | None:
    """Correlate over the prompts whose latency is known."""
    is_known = np.isfinite(latency_ms)
    return against_latency(lengths[is_known].tolist(), latency_ms[is_known].tolist())


_RUNS = """
    SELECT run_id, arm, method, draft_model, num_speculative_tokens, category, pattern, concurrency, num_drafts,
        num_draft_tokens, num_accepted_tokens, acceptance_per_position, workload_label AS workload
    FROM valid_latest_runs WHERE list_contains(?, job_id) AND num_speculative_tokens IS NOT NULL
        AND concurrency IS NOT NULL AND pattern IS NOT NULL
    ORDER BY workload, concurrency, pattern, arm, started_at, run_id
"""
_TOLD = f"""
    SELECT cell, category, prompt_id, spec_drafts, spec_draft_tokens, spec_accepted_tokens, tpot_ms, e2e_ms
    FROM {{records}} JOIN (SELECT unnest($1::TEXT[]) AS run_id, unnest($2::INTEGER[]) AS cell) USING (run_id)
    WHERE list_contains($1::TEXT[], run_id) AND is_completed AND category IS DISTINCT FROM '{NO_TEXT}'
        AND spec_drafts > 0 AND spec_accepted_tokens IS NOT NULL
"""  # noqa: S608 - no user's text is in it
#: By category and by prompt at once, because finding the requests takes most of the time.
_SUMS = f"""
    SELECT cell, category, grouping(prompt_id) = 1 AS of_category, grouping(category) = 1 AS of_prompt,
        sum(spec_drafts)::BIGINT AS num_drafts,
        CASE WHEN count(spec_draft_tokens) = count(*) THEN sum(spec_draft_tokens)::BIGINT END AS num_draft_tokens,
        sum(spec_accepted_tokens)::BIGINT AS num_accepted_tokens,
        1 + sum(spec_accepted_tokens) / sum(spec_drafts) AS length, avg(tpot_ms) AS tpot_ms, avg(e2e_ms) AS e2e_ms
    FROM ({_TOLD}) GROUP BY GROUPING SETS ((cell, category), (cell, prompt_id)) ORDER BY cell, category
"""  # noqa: S608 - no user's text is in it


@dataclass(frozen=True)
class Origin:
    """When and where a run was measured, and by which version of the engine."""

    started_at: datetime
    job_id: str
    hardware: str
    engine_version: str | None


@dataclass(frozen=True)
class History:
    """The runs of one cell (`cell_id`) in all studies, oldest first, with the drift rule's state of each."""

    cell: CellKey
    arm: str
    moments: tuple[Moment, ...]
    sources: tuple[Origin, ...]

    @property
    def changes(self) -> tuple[tuple[Moment, Origin], ...]:
        pairs = zip(self.moments, self.sources, strict=True)
        return tuple((moment, source) for moment, source in pairs if moment.state == "changed")


def histories(con: duckdb.DuckDBPyConnection, study: str) -> list[History]:
    """Return the history of acceptance length for each speculating arm in each cell of the study."""
    rows_by_cell: dict[str, list[Row]] = {}
    for row in dicts(con, _HISTORIES, [jobs_of(con, study)]):
        rows_by_cell.setdefault(row["cell"], []).append(row)
    found = []
    for rows in rows_by_cell.values():
        here = next(row for row in rows if row["is_here"])  # its names of workload and arm are the study's
        moments = drift([(row["run_id"], row["acceptance_length"]) for row in rows])
        sources = [Origin(row["started_at"], row["job_id"], row["hardware"], row["engine_version"]) for row in rows]
        found.append(History(CellKey.of(here), here["arm"], moments, tuple(sources)))
    return sorted(
        found, key=lambda history: (history.cell.workload, history.cell.concurrency, history.cell.pattern, history.arm)
    )


_HISTORIES = """
    WITH measured AS (
        SELECT cell_id AS cell, workload_label AS workload, pattern, concurrency, arm, run_id, job_id, hardware,
            engine_version, started_at, acceptance_length, job_id IN (SELECT unnest(?)) AS is_here
        FROM valid_latest_runs WHERE acceptance_length IS NOT NULL AND origin = 'measured'
    )
    SELECT * FROM measured WHERE cell IN (SELECT cell FROM measured WHERE is_here)
    ORDER BY started_at, run_id
"""
