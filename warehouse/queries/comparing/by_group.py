"""Arms by turn of a session and by length of context: acceptance, latencies, and the surface of break-even.

The numbers of each run by turn and context are in `request_groups`; the statistics are those of whole runs
(`lab.comparison`), with the runs of a group in place of runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb

from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.effect import Interval
from lab.comparison.samples import RunSample
from lab.comparison.surface import Surface, SurfaceCell, surface
from lab.comparison.verdict import Judged, Word, verdicts
from lab.errors import QueryError
from warehouse.queries.comparing.paired_runs import jobs_of, sample
from warehouse.queries.rows import Row, dicts

Metric = Literal["tpot_mean_ms", "ttft_mean_ms", "e2e_mean_ms"]
METRICS: tuple[Metric, ...] = ("tpot_mean_ms", "ttft_mean_ms", "e2e_mean_ms")


@dataclass(frozen=True)
class Group:
    """One arm at one turn or context of one load, all runs together.

    `ratio` is of the means of `metric` to the baseline's, None for the baseline itself and without its runs; `word` is
    the verdict on it. `pattern` is the load's name.
    """

    arm: str
    is_baseline: bool
    workload: str
    pattern: str
    concurrency: int
    turn: int | None
    context_tokens: int | None
    requests: int
    runs: int
    mean_ms: float | None
    length: Interval | None
    ratio: Interval | None = None
    word: Word | None = None


_ROWS = """
    SELECT r.run_id, r.job_id, r.arm, coalesce(r.is_baseline, false) AS is_baseline, r.repeat, r.launch_index,
        r.taken_over_from, coalesce(r.until_decided, false) AS until_decided, r.workload_label AS workload,
        r.pattern, r.concurrency, r.arm_id,
        CASE WHEN r.origin = 'measured' OR r.tool = 'drafthouse' THEN r.host END AS host,
        r.num_speculative_tokens,
        g.turn, g.context_tokens, g.requests, g.num_drafts, g.num_accepted_tokens, g.acceptance_length,
        g."{metric}" AS number
    FROM request_groups AS g JOIN valid_latest_runs AS r USING (run_id)
    WHERE list_contains(?, r.job_id) AND g.grain = ? AND r.concurrency IS NOT NULL
        AND r.pattern IS NOT NULL
    ORDER BY workload, concurrency, pattern, turn, context_tokens, NOT is_baseline, arm, r.started_at, run_id
"""


def by_group(
    con: duckdb.DuckDBPyConnection,
    study: str,
    grain: Literal["turn", "context"],
    metric: Metric = "tpot_mean_ms",
    *,
    baseline: str | None = None,
) -> list[Group]:
    """Return every arm at every turn or context, against the baseline. Empty for a study without such numbers.

    Raises QueryError for an unknown study or metric.
    """
    rows = _rows(con, study, grain, metric)
    name = _baseline(rows, baseline)
    groups = _grouped(rows, ("workload", "pattern", "concurrency", "turn", "context_tokens"))
    compared = _compared(groups, name)
    return [
        _group(arm, arm_rows, compared.get((key, arm)))
        for key, arms in groups.items()
        for arm, arm_rows in arms.items()
    ]


def _rows(con: duckdb.DuckDBPyConnection, study: str, grain: str, metric: str) -> list[Row]:
    if metric not in METRICS:
        raise QueryError(f"{metric!r} is not known by turn or context: use one of {', '.join(METRICS)}")
    return dicts(con, _ROWS.format(metric=metric), [jobs_of(con, study), grain])


GroupKey = tuple[Hashable, ...]
#: By key and arm the rows of its runs.
_Rows = Mapping[GroupKey, Mapping[str, list[Row]]]


def _grouped(rows: Sequence[Row], keys: Sequence[str]) -> dict[GroupKey, dict[str, list[Row]]]:
    groups: dict[GroupKey, dict[str, list[Row]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), {}).setdefault(row["arm"], []).append(row)
    return groups


def _baseline(rows: Sequence[Row], requested: str | None) -> str | None:
    return requested or next((str(row["arm"]) for row in rows if row["is_baseline"]), None)


def _compared(groups: _Rows, baseline: str | None) -> dict[tuple[GroupKey, str], Judged]:
    """Return each comparison with a ratio, by key and candidate; the verdicts are corrected for all of them."""
    both = [
        (key, arm, arms[baseline], rows)
        for key, arms in groups.items()
        for arm, rows in arms.items()
        if baseline is not None and baseline in arms and arm != baseline
    ]
    cells = [
        CellRuns(
            _samples(base), _samples(rows), control=_identical(base, rows), concurrency=float(rows[0]["concurrency"])
        )
        for _, _, base, rows in both
    ]
    judged = map(Judged, comparisons := compare_cells(cells, "lower"), verdicts(comparisons))
    pairs = zip(both, judged, strict=True)
    return {(key, arm): cell for (key, arm, _, _), cell in pairs if cell.ratio is not None}


def _samples(rows: Sequence[Row]) -> list[RunSample]:
    return [sample(row, row["workload"]) for row in rows]


def _identical(base: Sequence[Row], rows: Sequence[Row]) -> bool:
    return base[0]["arm_id"] is not None and base[0]["arm_id"] == rows[0]["arm_id"]


def _group(arm: str, rows: Sequence[Row], compared: Judged | None) -> Group:
    first = rows[0]
    known = [row["number"] for row in rows if row["number"] is not None]
    return Group(
        arm=arm,
        is_baseline=first["is_baseline"],
        workload=first["workload"],
        pattern=first["pattern"],
        concurrency=first["concurrency"],
        turn=first["turn"],
        context_tokens=first["context_tokens"],
        requests=sum(row["requests"] for row in rows),
        runs=len(rows),
        mean_ms=sum(known) / len(known) if known else None,
        length=_length(rows),
        ratio=None if compared is None else compared.ratio,
        word=None if compared is None else compared.verdict.word,
    )


def _length(rows: Sequence[Row]) -> Interval | None:
    """Return the pooled acceptance length, bounded by its runs' extremes: repeats of a greedy run are not a sample."""
    counted = [row for row in rows if row["acceptance_length"] is not None]
    rounds = sum(row["num_drafts"] for row in counted)
    if not rounds:
        return None
    lengths = [row["acceptance_length"] for row in counted]
    return Interval(1 + sum(row["num_accepted_tokens"] for row in counted) / rounds, min(lengths), max(lengths))


def surfaces(con: duckdb.DuckDBPyConnection, study: str, *, baseline: str | None = None) -> dict[str, Surface]:
    """Return the surface of each candidate over concurrency and length of context, in time per output token.

    Workloads of the same concurrency and context are taken together, each compared with the baseline's runs of the
    same prompts. Contexts come from workloads of several lengths, or from sessions that grow. Left out are controls,
    and concurrencies at which there are several loads.
    """
    rows = _rows(con, study, "context", "tpot_mean_ms")
    loads: dict[int, set[str]] = {}
    for row in rows:
        loads.setdefault(row["concurrency"], set()).add(row["pattern"])
    rows = [row for row in rows if len(loads[row["concurrency"]]) == 1]
    name = _baseline(rows, baseline)
    groups = _grouped(rows, ("concurrency", "context_tokens"))
    cells: dict[str, list[SurfaceCell]] = {}
    drafted = {str(row["arm"]): row["num_speculative_tokens"] for row in rows}
    for (key, arm), compared in _compared(groups, name).items():
        if (gain := compared.gain) is None or compared.comparison.control:
            continue
        concurrency, context = (int(str(part)) for part in key)
        arm_rows = groups[key][arm]
        length = _length(arm_rows)
        requests = sum(row["requests"] for row in arm_rows)
        cells.setdefault(arm, []).append(
            SurfaceCell(
                concurrency, context, gain, None if length is None else length.value, compared.verdict.word, requests
            )
        )
    return {arm: surface(of_arm, drafted[arm]) for arm, of_arm in cells.items()}


def several_contexts(con: duckdb.DuckDBPyConnection, study: str) -> dict[str, Surface]:
    """Return the surfaces of the candidates that were measured at several lengths of context."""
    return {arm: found for arm, found in surfaces(con, study).items() if len(found.contexts) > 1}
