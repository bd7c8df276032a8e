"""Whether the acceptance of what a study measured has changed since it was first measured, in whatever study."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb

from lab.comparison.drift import Moment, drift
from warehouse.queries.paired_runs import Place, Row, dicts, jobs_of


@dataclass(frozen=True)
class Source:
    """Of one moment: when and where it was measured, and what served it."""

    started_at: datetime
    job_id: str
    hardware: str
    engine_version: str | None


@dataclass(frozen=True)
class History:
    """All valid runs of the same cell (`cell_id`), oldest first, and what the rule says of each."""

    place: Place
    arm: str
    moments: tuple[Moment, ...]
    sources: tuple[Source, ...]

    @property
    def changes(self) -> tuple[tuple[Moment, Source], ...]:
        pairs = zip(self.moments, self.sources, strict=True)
        return tuple((moment, source) for moment, source in pairs if moment.state == "changed")


def histories(con: duckdb.DuckDBPyConnection, study: str) -> list[History]:
    """Of each speculating arm at each place of the study, by acceptance length."""
    found: dict[str, list[Row]] = {}
    for row in dicts(con, _HISTORIES, [jobs_of(con, study)]):
        found.setdefault(row["cell"], []).append(row)
    made = [_history(rows) for rows in found.values()]
    return sorted(made, key=lambda each: (each.place.workload, each.place.concurrency, each.place.pattern, each.arm))


def _history(rows: list[Row]) -> History:
    """Of the same cell; the place and arm are those by which the study names it."""
    here = next(row for row in rows if row["is_here"])
    return History(
        place=Place(here["workload"], here["pattern"], here["concurrency"]),
        arm=here["arm"],
        moments=drift([(row["run_id"], row["acceptance_length"]) for row in rows]),
        sources=tuple(Source(row["started_at"], row["job_id"], row["hardware"], row["engine_version"]) for row in rows),
    )


#: Runs from before there were cell ids are the same cell when all that they tell of it is the same.
_HISTORIES = """
    WITH keyed AS (
        SELECT coalesce(cell_id, concat_ws('/', target, arm, method, draft_model, num_speculative_tokens, dataset,
                category, input_tokens, requested_output_tokens, pattern, temperature, top_p, endpoint)) AS cell,
            workload_label AS workload, pattern, concurrency, arm, run_id, job_id, hardware, engine_version,
            started_at, acceptance_length, job_id IN (SELECT unnest(?)) AS is_here
        FROM valid_latest_runs WHERE acceptance_length IS NOT NULL AND origin = 'measured'
    )
    SELECT * FROM keyed WHERE cell IN (SELECT cell FROM keyed WHERE is_here)
    ORDER BY started_at, run_id
"""
