"""The input of comparisons, read from the warehouse: the runs of each arm in each cell, and their requests.

The runs are those of the view `valid_latest_runs`. Choose jobs of it with `list_contains(?, job_id)`: DuckDB then
reads no other job, as it does with a subquery.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np

from lab.comparison.agreement import Output
from lab.comparison.influence import follows
from lab.comparison.samples import Array, Requests, RunSample
from lab.errors import QueryError, UnknownStudyError
from lab.metrics.catalogue import METRICS
from lab.validity.words import lost_words
from warehouse.queries.results import COMPARABLE, COMPARED
from warehouse.queries.rows import Row, dicts, parallel, records_of
from warehouse.schema import request_columns

_ABOUT = ("arm", "is_baseline", "method", "num_speculative_tokens", "category", "closed_loop", "arm_id")


@dataclass(frozen=True, order=True)
class CellKey:
    """Where two arms are compared: the same prompts under the same load."""

    workload: str
    pattern: str
    concurrency: int

    @classmethod
    def of(cls, row: Row) -> CellKey:
        """Return the cell of a row that has these columns."""
        return cls(row["workload"], row["pattern"], row["concurrency"])


@dataclass(frozen=True)
class ArmRuns:
    """An arm's runs in one cell."""

    cell: CellKey
    arm: str
    is_baseline: bool
    method: str | None
    num_speculative_tokens: int | None
    category: str | None
    closed_loop: bool | None  # no request rate was set: the next request is sent when one ends; None: unknown
    arm_id: str | None  # equal for identical arms, whatever their names; None if unknown
    runs: tuple[RunSample, ...]


_NAMED = """
    SELECT job_id, coalesce(bool_or(is_valid), false), count(*) FILTER (status = 'failed'), count(*)
    FROM results WHERE study_name = $1 AND (origin = 'measured' OR NOT EXISTS (
        SELECT 1 FROM results WHERE study_name = $1 AND origin = 'measured'))
    GROUP BY job_id ORDER BY max(started_at) DESC, job_id DESC
"""


@dataclass(frozen=True)
class _NamedJob:
    """A job of a study's name, and how many of its runs failed."""

    job_id: str
    has_valid_runs: bool
    failed: int
    runs: int


def _named_jobs(con: duckdb.DuckDBPyConnection, name: str) -> list[_NamedJob]:
    """Return the jobs of this name that have results, newest first; imported ones only if none was measured here.

    Whoever imports results chooses their name.
    """
    return [_NamedJob(*row) for row in con.execute(_NAMED, [name]).fetchall()]


def _with_results(jobs: Sequence[_NamedJob]) -> _NamedJob | None:
    """Return the newest job with valid runs, or the newest one if none has any."""
    return next((job for job in jobs if job.has_valid_runs), jobs[0] if jobs else None)


def newer_without_results(con: duckdb.DuckDBPyConnection, study: str) -> str | None:
    """Name, in a sentence, the newer job that `jobs_of` passes over because it has no valid run; None without one."""
    jobs = _named_jobs(con, study)
    chosen = _with_results(jobs)
    if chosen is None or chosen == jobs[0]:
        return None
    lost = lost_words(jobs[0].failed, jobs[0].runs - jobs[0].failed, jobs[0].runs)
    newer = f"a newer job of {study!r}, {jobs[0].job_id}, has no valid run ({lost})"
    return f"{newer}; these are the results of {chosen.job_id}"


def jobs_of(con: duckdb.DuckDBPyConnection, study: str) -> list[str]:
    """Resolve a job's id, the beginning of a study's digest (all its jobs), or a study's name: its newest job with
    valid runs, or the newest one if none has any.

    Raises QueryError if the warehouse has no such job.
    """
    matching = con.execute(
        """
        SELECT job_id FROM results
        WHERE origin <> 'published' AND (job_id = $1 OR (len($1) >= 6 AND starts_with(study_id, $1)))
        GROUP BY job_id ORDER BY job_id
        """,
        [study],
    ).fetchall()
    jobs = [job for (job,) in matching]
    if not jobs and (named := _with_results(_named_jobs(con, study))):
        jobs = [named.job_id]
    if not jobs:
        raise UnknownStudyError(
            f"the warehouse has no results of {study!r}: give a job's id, a study's digest or its name"
        )
    return jobs


def arm_runs(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str) -> list[ArmRuns]:
    """Return every arm in every cell, in the order of workload, concurrency, pattern and first run.

    Raises QueryError for a metric that is not in `results.COMPARABLE`.
    """
    rows = dicts(con, _RUNS.format(metric=known_metric(metric)), [list(jobs)])
    requests, rounds = _requests(con, rows, metric), _rounds(con, rows, metric)
    rows_of: dict[tuple[CellKey, str], list[Row]] = {}
    for row in rows:
        rows_of.setdefault((CellKey.of(row), row["arm"]), []).append(row)
    return [
        ArmRuns(
            cell=cell,
            runs=tuple(
                sample(row, requests=requests.get(row["run_id"]), rounds=rounds.get(row["run_id"])) for row in arm_rows
            ),
            **{name: arm_rows[0][name] for name in _ABOUT},
        )
        for (cell, _), arm_rows in rows_of.items()
    ]


def sample(row: Row, *parts: object, requests: Requests | None = None, rounds: Array | None = None) -> RunSample:
    """Return the run of a row, whose metric is `number`. `parts` tell runs of one repeat apart, which are not pairs; so
    does the host, where it is known: a ratio of two hosts would compare the hosts, too.
    """
    block = (row["job_id"], row["repeat"], *host_of(row), *parts)
    return RunSample(
        row["run_id"],
        row["arm"],
        block,
        row["number"],
        requests,
        launch_of(row),
        until_decided=bool(row["until_decided"]),
        rounds=rounds,
        in_sessions=bool(row.get("in_sessions")),
    )


def launch_of(row: Row) -> str | None:
    """Return the launch that started the run's engines, as job_id/launch_index of a host: an earlier study's, if it
    kept them.
    """
    if row["launch_index"] is None:
        return None
    return "/".join([row["taken_over_from"] or f"{row['job_id']}/{row['launch_index']}", *host_of(row)])


def host_of(row: Row) -> tuple[str, ...]:
    """Return the run's host, or nothing if it is unknown."""
    return () if row["host"] is None else (row["host"],)


@dataclass(frozen=True)
class Earlier:
    """A cell that was measured earlier: the means of a metric on its engine starts."""

    job_id: str
    values: Sequence[float]


def earlier_repeats(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, until: datetime | None = None
) -> list[Earlier]:
    """The metric's mean on each engine start, in each cell with several on the hardware of these jobs, of runs that had
    ended before the first run of these jobs began. So nothing that is measured later changes what they are judged by.
    `until` is another end of the history.

    Empty if it is unknown when that was. Only starts within a job on one host: two may differ by more than chance.
    """
    rows = con.execute(_HISTORY.format(metric=known_metric(metric)), [list(jobs), until]).fetchall()
    return [Earlier(job_id, values) for job_id, values in rows]


def outputs(con: duckdb.DuckDBPyConnection, arms: Sequence[Sequence[str]]) -> list[dict[str, Output]]:
    """Return each arm's first successful output of each prompt, by prompt_id; see `COMPARED` for sessions.

    Token ids are known if the server sent as many as its usage counts.
    """
    query = _OUTPUTS.format(records=records_of(con, [run_id for run_ids in arms for run_id in run_ids]))
    table = con.execute(query, parallel(dict(enumerate(arms)))).to_arrow_table()
    columns = [list[Any](table[name].to_pylist()) for name in ("arm", "prompt_id", "text", "count")]
    outputs_of: list[dict[str, Output]] = [{} for _ in arms]
    for arm, prompt_id, text, count, ids in zip(*columns, _token_ids(table["ids"].combine_chunks()), strict=True):
        outputs_of[arm][prompt_id] = Output(text, ids if ids is not None and len(ids) == count else None, count)
    return outputs_of


def _token_ids(lists: Any) -> list[array[int] | None]:
    """Return lists of token ids without a Python object per token; null becomes None."""
    are_known, flat = lists.is_valid().to_pylist(), lists.values.to_numpy(zero_copy_only=False)
    ends = lists.offsets.to_pylist()
    return [
        array("i", flat[begin:end].tobytes()) if is_known else None
        for is_known, (begin, end) in zip(are_known, pairwise(ends), strict=True)
    ]


def known_metric(metric: str) -> str:
    """Return the metric. Raises QueryError for a metric that is not in `results.COMPARABLE`."""
    if metric not in COMPARABLE:
        raise QueryError(f"{metric!r} is not a comparable metric: use one of {', '.join(COMPARABLE)}")
    return metric


def _requests(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], metric: str) -> dict[str, Requests]:
    """Return each run's requests; empty for runs whose metric does not follow from its requests."""
    requests: dict[str, Requests] = {}
    for closed_loop in (True, False):
        how = follows(metric, closed_loop=closed_loop)
        ids = [row["run_id"] for row in rows if bool(row["closed_loop"]) == closed_loop]
        if how and ids:
            requests |= request_columns.read_prompt_latencies(con, ids, how.column)
    return requests


def _rounds(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], metric: str) -> dict[str, Array]:
    """Return the metric's values in the rounds of each run that was measured in rounds, NaN where unknown."""
    sql = f"""
        SELECT run_id, list(coalesce("{metric}", 'nan'::DOUBLE)::DOUBLE ORDER BY round) FROM rounds
        WHERE list_contains(?, run_id) GROUP BY run_id
    """  # noqa: S608 - the name of a metric
    found = con.execute(sql, [[row["run_id"] for row in rows]]).fetchall()
    return {run_id: np.array(values, dtype=np.float64) for run_id, values in found}


def metric_names() -> tuple[str, ...]:
    """Return the comparable metrics with a better direction."""
    return tuple(metric.name for metric in METRICS if metric.better != "neither" and metric.name in COMPARABLE)


_RUNS = """
    SELECT run_id, job_id, arm, "{metric}" AS number,
        CASE WHEN origin = 'measured' OR tool = 'drafthouse' THEN repeat ELSE row_number() OVER (
            PARTITION BY origin, job_id, arm, workload, dataset, category, requested_output_tokens, pattern, concurrency
            ORDER BY repeat, started_at, run_id) END AS repeat,
        workload_label AS workload, pattern, concurrency, is_baseline, method, num_speculative_tokens, category,
        closed_loop, arm_id, launch_index, taken_over_from, until_decided, session_answers IS NOT NULL AS in_sessions,
        CASE WHEN origin = 'measured' OR tool = 'drafthouse' THEN host END AS host
    FROM valid_latest_runs WHERE list_contains(?, job_id) AND concurrency IS NOT NULL AND pattern IS NOT NULL
    ORDER BY workload, concurrency, pattern, started_at, run_id
"""
#: The rule of valid_latest_runs for the attempts of that time: the view has later ones in their place. A job that was
#: submitted later ran later, too, whatever the clock of its host says. The sums of `avg` depend on the order of rows.
_HISTORY = """
    WITH begun AS (
        SELECT coalesce($2::TIMESTAMPTZ, min(started_at)) AS moment FROM runs WHERE list_contains($1, job_id)
    ),
    earlier AS (
        SELECT * FROM results, begun
        WHERE hardware IN (SELECT hardware FROM runs WHERE list_contains($1, job_id)) AND NOT list_contains($1, job_id)
            AND origin = 'measured' AND status = 'completed' AND is_valid IS NOT false AND search IS NULL
            AND epoch(started_at) + window_s <= epoch(moment)
            AND job_id NOT IN (SELECT job_id FROM jobs, begun WHERE submitted_at >= moment)
        QUALIFY row_number() OVER (PARTITION BY job_id, cell_key ORDER BY attempt DESC, started_at DESC) = 1
    ),
    launches AS (
        SELECT job_id, coalesce(cell_id, cell_key) AS cell, launch_index, host,
            list_avg(list("{metric}" ORDER BY started_at, run_id)) AS number, max(started_at) AS started_at
        FROM earlier WHERE "{metric}" IS NOT NULL GROUP BY ALL
    )
    SELECT job_id, list(number ORDER BY launch_index) FROM launches GROUP BY job_id, cell, host HAVING count(*) >= 2
    ORDER BY max(started_at) DESC, job_id, cell, host LIMIT 200
"""
#: DuckDB evaluates list_contains once per distinct run of a block of rows, but a join or IN for each row.
_OUTPUTS = f"""
    SELECT arm, prompt_id, got.text AS text, got.count AS count, got.ids AS ids FROM (
        SELECT arm, prompt_id, min("index") AS position, arg_min(struct_pack(
            text := output_text, count := completion_tokens, ids := output_token_ids), run_id) AS got
        FROM {{records}} JOIN (SELECT unnest($1::TEXT[]) AS run_id, unnest($2::INTEGER[]) AS arm) USING (run_id)
        WHERE list_contains($1::TEXT[], run_id) AND is_completed AND prompt_id IS NOT NULL AND {COMPARED}
        GROUP BY arm, prompt_id
    ) ORDER BY arm, position
"""  # noqa: S608 - no user's text is in it
