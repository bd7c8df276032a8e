"""Queries of pages and the command line: one function each, on a connection of `open_warehouse`.

Each returns a data frame with the columns named in its docstring; null (NaN, None) means unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from lab.metrics.catalogue import METRICS
from warehouse.queries.rows import records_of

if TYPE_CHECKING:
    import pandas as pd  # the ingester reads this module and does without

#: The metrics that can be compared: all that are a single number.
COMPARABLE = tuple(metric.name for metric in METRICS if not metric.has_several)
#: Which requests were sent the same prompt in every arm: a later turn follows what the model itself answered, unless
#: recorded answers are replayed.
COMPARED = "(turn IS NULL OR turn = 1 OR run_id IN (SELECT run_id FROM runs WHERE session_answers = 'recorded'))"


def frame(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> pd.DataFrame:
    """Return a data frame, by way of Arrow: duckdb's own conversion warns about every timestamp (pandas 3.1)."""
    return con.execute(sql, list(parameters)).to_arrow_table().to_pandas()


#: Which of several attempts at a cell counts: the last that is valid, else the last completed, else the last. The valid
#: attempt that counts is the one in the view valid_latest_runs.
_COUNTS = """row_number() OVER (PARTITION BY job_id, cell_key ORDER BY status = 'completed' AND is_valid IS NOT false
    DESC, status = 'completed' DESC, attempt DESC, started_at DESC) = 1"""


def jobs_with_results(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """job_id, study_name, target, hardware, submitted_at, origin, is_in_queue, runs_completed, runs_invalid (of these),
    runs_failed, is_comparison (an arm and its baseline have valid runs), is_hidden; newest first, without deleted ones.

    Of several attempts at a cell one counts. If the app database does not know the job (an import, or a bundle from
    another home), it is not in the queue, and submitted_at is its first run's start.
    """
    return frame(
        con,
        f"""
        WITH counted AS (
            SELECT runs.*, is_valid FROM runs LEFT JOIN run_validity USING (run_id) QUALIFY {_COUNTS}
        )
        SELECT r.job_id, coalesce(any_value(c.name), any_value(r.study_name)) AS study_name,
            any_value(r.target) AS target,
            string_agg(DISTINCT r.hardware, ', ' ORDER BY r.hardware) AS hardware,
            coalesce(any_value(j.submitted_at), min(r.started_at)) AS submitted_at, any_value(r.origin) AS origin,
            bool_or(j.job_id IS NOT NULL) AS is_in_queue,
            count(*) FILTER (r.status = 'completed') AS runs_completed,
            count(*) FILTER (r.status = 'completed' AND r.is_valid = false) AS runs_invalid,
            count(*) FILTER (r.status = 'failed') AS runs_failed,
            coalesce(
                bool_or(r.is_baseline) FILTER (r.status = 'completed' AND r.is_valid IS NOT false)
                AND bool_or(NOT r.is_baseline) FILTER (r.status = 'completed' AND r.is_valid IS NOT false), false
            ) AS is_comparison, bool_or(c.hidden_at IS NOT NULL) AS is_hidden
        FROM counted AS r LEFT JOIN jobs AS j USING (job_id) LEFT JOIN curated_studies AS c USING (job_id)
        WHERE c.deleted_at IS NULL GROUP BY r.job_id ORDER BY submitted_at DESC, r.job_id DESC
        """,  # noqa: S608 - no text of a user is in it
    )


def lost_runs(con: duckdb.DuckDBPyConnection, job_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the failed and the invalid runs of each job that has runs, as `jobs_with_results` counts them."""
    query = f"""
        WITH counted AS (
            SELECT job_id, status, is_valid FROM runs LEFT JOIN run_validity USING (run_id)
            WHERE job_id IN (SELECT unnest(?)) QUALIFY {_COUNTS}
        )
        SELECT job_id, count(*) FILTER (status = 'failed'),
            count(*) FILTER (status = 'completed' AND is_valid = false)
        FROM counted GROUP BY job_id
        """  # noqa: S608 - no text of a user is in it
    found = con.execute(query, [list(job_ids)]).fetchall()
    return {job_id: (failed, invalid) for job_id, failed, invalid in found}


def arms(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """arm, method, num_speculative_tokens of the last run of each name of an arm."""
    return frame(
        con,
        """
        SELECT arm, arg_max(method, started_at) AS method,
            arg_max(num_speculative_tokens, started_at) AS num_speculative_tokens
        FROM runs GROUP BY arm ORDER BY arm
        """,
    )


def results(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """All columns of the view `results`, one row per run of the job, in the order of measuring; and is_counted: of
    several attempts at a cell one counts.
    """
    sql = f"SELECT *, {_COUNTS} AS is_counted FROM results WHERE job_id = ? ORDER BY started_at, run_id"  # noqa: S608
    return frame(con, sql, [job_id])


def acceptance_per_position(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """arm, category, concurrency, position (from 1), acceptance (weighted by drafts), num_drafts.

    Of valid_latest_runs.
    """
    return frame(
        con,
        """
        WITH position AS (
            SELECT arm, coalesce(category, 'all') AS category, concurrency, num_drafts,
                unnest(acceptance_per_position) AS rate,
                unnest(range(1, len(acceptance_per_position) + 1)) AS position
            FROM valid_latest_runs
            WHERE job_id = ? AND num_drafts > 0 AND acceptance_per_position IS NOT NULL AND concurrency IS NOT NULL
        )
        SELECT arm, category, concurrency, position, sum(rate * num_drafts) / sum(num_drafts) AS acceptance,
            sum(num_drafts)::BIGINT AS num_drafts
        FROM position GROUP BY ALL ORDER BY arm, category, concurrency, position
        """,
        [job_id],
    )


def failed_runs(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """run_id, arm, dataset, category, pattern, concurrency, repeat, attempt, started_at, error; oldest first."""
    return frame(
        con,
        """
        SELECT run_id, arm, dataset, category, pattern, concurrency, repeat, attempt, started_at, error
        FROM runs WHERE job_id = ? AND status = 'failed' ORDER BY started_at, run_id
        """,
        [job_id],
    )


def rejected_bundles(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """path (a bundle's, or a job's if it could not be judged), error (a sentence, perhaps followed by a
    traceback), rejected_at; the last first.
    """
    return frame(con, "SELECT path, error, rejected_at FROM rejected_bundles ORDER BY rejected_at DESC, path")


def findings(con: duckdb.DuckDBPyConnection, job_id: str) -> pd.DataFrame:
    """severity, check_name, sentence, advice, run_id, arm, dataset, category, pattern, concurrency, repeat: findings of
    the checks about the job's runs, and about the job as a whole (run_id and all after it are null); the gravest first,
    then in the order of measuring.
    """
    return frame(
        con,
        """
        WITH found AS (
            SELECT run_id, check_name, severity, sentence, advice FROM findings JOIN runs USING (run_id)
            WHERE job_id = $1
            UNION ALL SELECT NULL, check_name, severity, sentence, advice FROM study_findings WHERE job_id = $1
        )
        SELECT f.severity, f.check_name, f.sentence, f.advice, f.run_id, r.arm, r.dataset, r.category, r.pattern,
            r.concurrency, r.repeat
        FROM found AS f LEFT JOIN runs AS r USING (run_id)
        ORDER BY list_position(['invalid', 'warning', 'note'], f.severity), r.started_at NULLS FIRST, f.check_name
        """,
        [job_id],
    )


def run_seconds(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """How long earlier runs took, to estimate the next ones.

    host, hardware, engine, target, method, num_speculative_tokens, dataset, requested_output_tokens, pattern,
    concurrency, num_prompts, closed_loop (no request rate was set), sessions (how they were replayed, as in the name of
    the workload; null without), runs, requests (sent, median), run_s (median of warm-up and window together),
    engine_start_s (median).
    """
    return frame(
        con,
        """
        SELECT host, hardware, engine, target, method, num_speculative_tokens, dataset, requested_output_tokens,
            pattern, concurrency, num_prompts, closed_loop,
            nullif(regexp_extract(workload, '/(sessions-[^/]+)/[^/]+$', 1), '') AS sessions, count(*) AS runs,
            median(requests_completed + requests_failed) AS requests,
            median(window_s + coalesce(warmup_s, 0)) AS run_s, median(engine_start_s) AS engine_start_s
        FROM results
        WHERE status = 'completed' AND window_s IS NOT NULL AND origin = 'measured' AND ended_early IS NULL
        GROUP BY ALL ORDER BY ALL
        """,
    )


def telemetry(con: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """All columns of the table `telemetry`: one row per second of the run's measured window, in the order of time."""
    return frame(con, "SELECT * FROM telemetry WHERE run_id = ? ORDER BY t_s", [run_id])


def run(con: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """All columns of `runs`, `run_validity` and `run_metrics` of one run; no row for an unknown run, or one of a
    deleted study.
    """
    return frame(
        con,
        """
        SELECT * FROM runs JOIN run_metrics USING (run_id) LEFT JOIN run_validity USING (run_id) WHERE run_id = ?
            AND job_id NOT IN (SELECT job_id FROM curated_studies WHERE deleted_at IS NOT NULL)
        """,
        [run_id],
    )


def run_findings(con: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """severity, check_name, sentence, advice: findings of the checks about this run, the gravest first."""
    return frame(
        con,
        """
        SELECT severity, check_name, sentence, advice FROM findings WHERE run_id = ?
        ORDER BY list_position(['invalid', 'warning', 'note'], severity), check_name
        """,
        [run_id],
    )


def requests_of(con: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """All columns of `request_records` of one run that are numbers or short texts, in the order of sending; and
    prompt_begins, the first characters of the prompt.

    Chunks, token ids and the texts of prompts and outputs are nine tenths of the bytes: `whole_requests` has them.
    """
    begins = f"regexp_replace(left(prompt, {_BEGINS}), '\\s+', ' ', 'g') AS prompt_begins"
    return _requests(con, run_id, (*_LONG, "output_token_ids"), begins)


def whole_requests(con: duckdb.DuckDBPyConnection, run_id: str) -> pd.DataFrame:
    """All columns of `request_records` of one run except output_token_ids, in the order of sending."""
    return _requests(con, run_id, ("output_token_ids",))


def slowest_prompts(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> pd.DataFrame:
    """The prompts that took longest over these runs, by the median of their E2E latencies: prompt_begins (null where
    texts are not stored), category, requests, runs, the medians e2e_ms, ttft_ms and tpot_ms, the longest most_ms, and
    prompt_id.
    """
    sql = f"""
        SELECT any_value(regexp_replace(left(prompt, {_BEGINS}), '\\s+', ' ', 'g')) AS prompt_begins,
            any_value(category) AS category, count(*) AS requests, count(DISTINCT run_id) AS runs,
            median(e2e_ms) AS e2e_ms, median(ttft_ms) AS ttft_ms, median(tpot_ms) AS tpot_ms, max(e2e_ms) AS most_ms,
            prompt_id
        FROM {records_of(con, run_ids)} WHERE list_contains(?, run_id) AND e2e_ms IS NOT NULL
        GROUP BY prompt_id ORDER BY median(e2e_ms) DESC, prompt_id LIMIT {_MOST_PROMPTS}
    """  # noqa: S608 - no text of a user is in it
    return frame(con, sql, [list(run_ids)])


def request_texts(con: duckdb.DuckDBPyConnection, run_id: str, index: int) -> pd.DataFrame:
    """prompt, output_text and chunks, how many there were, of one request; null where unknown."""
    sql = f"""
        SELECT prompt, output_text, len(chunk_s) AS chunks FROM {records_of(con, [run_id])}
        WHERE list_contains([?], run_id) AND "index" = ?
    """  # noqa: S608 - no text of a user is in it
    return frame(con, sql, [run_id, index])


_LONG = ("prompt", "output_text", "chunk_s", "chunk_tokens", "rounds_drafted", "rounds_accepted", "rounds_count")


#: Characters of a prompt by which a person knows it again.
_BEGINS = 100
_MOST_PROMPTS = 100


def _requests(con: duckdb.DuckDBPyConnection, run_id: str, without: Sequence[str], *more: str) -> pd.DataFrame:
    """list_contains takes half the time of an equals sign: DuckDB evaluates it once per distinct run of a block."""
    sql = f"""
        SELECT {", ".join((f"* EXCLUDE (run_started_at, {', '.join(without)})", *more))}
        FROM {records_of(con, [run_id])} WHERE list_contains([?], run_id) ORDER BY "index"
    """  # noqa: S608 - no text of a user is in it
    return frame(con, sql, [run_id])
