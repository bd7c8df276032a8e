"""Queries about published figures for pages and the command line, on a connection of `open_warehouse`."""

from __future__ import annotations

import duckdb
import pandas as pd

from lab.errors import QueryError
from lab.published import book
from lab.published.replication import OurRun, PairedFigure, side_by_side
from warehouse.queries.results import frame
from warehouse.queries.rows import dicts


def sources(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """source, date, title, method, preset, figures (how many), runs (of them in results), doubts; oldest first."""
    return frame(
        con,
        """
        SELECT s.*,
            (SELECT count(*) FROM published_results AS r WHERE r.source = s.source) AS figures,
            (SELECT count(DISTINCT run_id) FROM published_results AS r WHERE r.source = s.source) AS runs,
            (SELECT count(*) FROM published_doubts AS d WHERE d.source = s.source) AS doubts
        FROM published_sources AS s ORDER BY date, source
        """,
    )


def figures(con: duckdb.DuckDBPyConnection, source: str | None = None) -> pd.DataFrame:
    """All columns of `published_results`, and doubts: sentences about contradictions; in the order of the sources.

    Raises QueryError for an unknown source.
    """
    names = [name for (name,) in con.execute("SELECT source FROM published_sources ORDER BY source").fetchall()]
    if source is not None and source not in names:
        raise QueryError(f"{source!r} is not a published source: choose one of {', '.join(names)}")
    return frame(
        con,
        """
        SELECT r.*, (SELECT coalesce(list(sentence ORDER BY sentence), []) FROM published_doubts AS d
            WHERE list_contains(d.numbers, r.number)) AS doubts
        FROM published_results AS r WHERE $1 IS NULL OR source = $1 ORDER BY number
        """,
        [source],
    )


def imported_jobs(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """job_id, study_name, runs, failed (how many of them), tools, arms, hardware (names with commas), by name; and who
    imported a job of another Drafthouse, and which job it was there (imported_by, source_job), else empty.
    """
    return frame(
        con,
        """
        SELECT job_id, any_value(study_name) AS study_name, count(*) AS runs,
            count(*) FILTER (status <> 'completed') AS failed,
            coalesce(string_agg(DISTINCT concat_ws(' ', tool, tool_version), ', '), '') AS tools,
            coalesce(string_agg(DISTINCT arm, ', ' ORDER BY arm), '') AS arms,
            coalesce(string_agg(DISTINCT hardware, ', '), '') AS hardware,
            coalesce(any_value(labels_json->>'imported_by'), '') AS imported_by,
            coalesce(any_value(labels_json->>'source_job'), '') AS source_job
        FROM results WHERE origin = 'imported' GROUP BY job_id ORDER BY study_name, job_id
        """,
    )


def doubts(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """All columns of `published_doubts`."""
    return frame(con, "SELECT * FROM published_doubts ORDER BY source, check_name, sentence")


#: Columns of results that have the same name in OurRun.
_SAME = (
    *("run_id", "arm", "is_baseline", "method", "draft_model", "num_speculative_tokens", "dataset", "input_tokens"),
    *("pattern", "concurrency", "repeat", "hardware", "engine", "engine_version", "target"),
)


def repeating_job(con: duckdb.DuckDBPyConnection, study_name: str) -> str | None:
    """The newest job of this study's name with a completed measured run, or None."""
    query = """
        SELECT job_id FROM runs WHERE study_name = ? AND origin = 'measured' AND status = 'completed'
        ORDER BY started_at DESC LIMIT 1
    """
    row = con.execute(query, [study_name]).fetchone()
    return None if row is None else str(row[0])


def our_runs(con: duckdb.DuckDBPyConnection, job_id: str) -> list[OurRun]:
    """The job's valid_latest_runs."""
    query = "SELECT * FROM valid_latest_runs WHERE job_id = ? ORDER BY started_at, run_id"
    return [
        OurRun(
            **{name: row[name] for name in _SAME},
            workload=row["workload_label"],
            output_tokens=row["requested_output_tokens"],
            metrics={name: tuple(value) if isinstance(value, list) else value for name, value in row.items()},
        )
        for row in dicts(con, query, [job_id])
    ]


def paired_figures(con: duckdb.DuckDBPyConnection, source: str, preset: str, job_id: str) -> list[PairedFigure]:
    """The source's figures that the preset repeats, each beside the job's own."""
    return side_by_side(book.repeated_by(source, preset), our_runs(con, job_id))
