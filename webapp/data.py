"""The pages' only way to the warehouse and the job table.

What is read from the published file is cached by that file's identity: a new publication has another inode, so its data
is seen at the next look and the old entries fall out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import sqlalchemy as sa
import streamlit as st

from lab.comparison.agreement import Agreement
from lab.errors import QueryError
from lab.estimate import Estimate
from lab.replication import Beside
from lab.study import Study
from warehouse import comparisons, dictionary, published_questions, queries
from warehouse.comparisons import StudyComparison, compare_study
from warehouse.database import app_engine, open_warehouse
from warehouse.importers.reading import ForeignFile
from warehouse.importing import Import, import_read
from warehouse.published import book
from warehouse.sandbox import run_sql
from warehouse.settings import Settings, load_settings
from workers import queue

#: (path, inode, mtime in ns, size) of the published file; None before the first publication.
Publication = tuple[str, int, int, int] | None
_MOST_KEPT = 64
#: Each may have ten thousand rows.
_MOST_ANSWERS = 16
#: Reading and judging a hundred thousand outputs takes a second.
_MOST_OUTPUTS = 20_000


@dataclass(frozen=True)
class Answered:
    """The answer to a reader's SQL; `truncated`: there are more rows."""

    table: pa.Table
    truncated: bool
    took_s: float


@st.cache_resource(show_spinner=False)
def settings() -> Settings:
    return load_settings()


@st.cache_resource(show_spinner=False, max_entries=1)
def _engine(url: str) -> sa.Engine:
    del url  # the key: another database is another engine
    return app_engine(settings())


def engine() -> sa.Engine:
    """The app database. Raises UserError when it is not there or of another revision; the next call looks again."""
    return _engine(settings().app_database_url)


def publication() -> Publication:
    """Which published file lies there now."""
    path = settings().warehouse_file
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size


def forecast(study: Study) -> Estimate:
    """What the study asks of its machine, by the runs published so far."""
    return _forecast(publication(), study.digest(), study)


def studies_with_results() -> pd.DataFrame:
    """One row per job that has runs, newest first. Raises UserError where there is no warehouse to read."""
    return _studies_with_results(publication())


def results(job_id: str) -> pd.DataFrame:
    return _results(publication(), job_id)


def speedup(job_id: str, metric: str) -> pd.DataFrame:
    return _speedup(publication(), job_id, metric)


def acceptance(job_id: str) -> pd.DataFrame:
    return _acceptance(publication(), job_id)


def failed_runs(job_id: str) -> pd.DataFrame:
    return _failed_runs(publication(), job_id)


def run(run_id: str) -> pd.DataFrame:
    return _run(publication(), run_id)


def run_findings(run_id: str) -> pd.DataFrame:
    return _run_findings(publication(), run_id)


def requests_of(run_id: str) -> pd.DataFrame:
    return _requests_of(publication(), run_id)


def telemetry(run_id: str) -> pd.DataFrame:
    return _telemetry(publication(), run_id)


def described() -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """The warehouse's tables and their columns, views first."""
    return _described(publication())


def answered(sql: str) -> Answered:
    """What the warehouse answers to the reader's SQL. Raises QueryError with DuckDB's own words."""
    return _answered(publication(), sql)


def findings(job_id: str) -> pd.DataFrame:
    return _findings(publication(), job_id)


def comparison(job_id: str, metric: str) -> StudyComparison | None:
    """None where there is no valid baseline to compare with."""
    try:
        return _comparison(publication(), job_id, metric)
    except QueryError:
        return None


def agreements(job_id: str, metric: str, found: StudyComparison) -> list[Agreement] | None:
    """Of each pair of `found`, whether the outputs are the same; None of more outputs than a page can wait for."""
    runs = results(job_id)
    if runs["requests_completed"].sum() > _MOST_OUTPUTS:
        return None
    return _agreements(publication(), job_id, metric, found)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _forecast(publication: Publication, digest: str, _study: Study) -> Estimate:
    del publication, digest
    return queue.forecast(settings(), _study)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _studies_with_results(publication: Publication) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.jobs_with_results(connection)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _run(publication: Publication, run_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.run(connection, run_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _run_findings(publication: Publication, run_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.run_findings(connection, run_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_ANSWERS)
def _requests_of(publication: Publication, run_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.requests_of(connection, run_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _telemetry(publication: Publication, run_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.telemetry(connection, run_id)


@st.cache_data(show_spinner=False, max_entries=1)
def _described(publication: Publication) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return dictionary.described(connection)


@st.cache_data(show_spinner="Asking the warehouse", max_entries=_MOST_ANSWERS)
def _answered(publication: Publication, sql: str) -> Answered:
    del publication
    start_s = time.perf_counter()
    found = run_sql(settings(), sql)
    return Answered(found.table, truncated=found.truncated, took_s=time.perf_counter() - start_s)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _results(publication: Publication, job_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.results(connection, job_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _speedup(publication: Publication, job_id: str, metric: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.speedup(connection, job_id, metric)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _acceptance(publication: Publication, job_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.acceptance_per_position(connection, job_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _failed_runs(publication: Publication, job_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.failed_runs(connection, job_id)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _findings(publication: Publication, job_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.findings(connection, job_id)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _comparison(publication: Publication, job_id: str, metric: str) -> StudyComparison:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return compare_study(connection, job_id, metric)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _agreements(publication: Publication, job_id: str, metric: str, _found: StudyComparison) -> list[Agreement]:
    del publication, job_id, metric
    with closing(open_warehouse(settings())) as connection:
        return [agreed for _, agreed in comparisons.agreements(connection, _found)]


def import_files(files: Sequence[tuple[str, bytes]], labels: Mapping[str, str]) -> Import:
    """Import uploaded files, each (name, content): all of them, or with UserError nothing."""
    return import_read(settings(), [ForeignFile(name, content) for name, content in files], labels=labels)


def published_sources() -> pd.DataFrame:
    return _published_sources(publication())


@st.cache_data(show_spinner=False, max_entries=1)
def _published_sources(publication: Publication) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return published_questions.sources(connection)


def published_figures(source: str) -> pd.DataFrame:
    """Its figures as they were printed, with the preset that repeats each."""
    return _published_figures(publication(), source)


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _published_figures(publication: Publication, source: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        found = published_questions.figures(connection, source)
    presets = {study: book.preset_of(source, study) for study in dict.fromkeys(found["study"])}
    return found.drop(columns=["number", "source", "run_id", "doubts", "value"]).assign(
        preset=found["study"].map(presets)
    )


def published_doubts(source: str) -> list[str]:
    with closing(open_warehouse(settings())) as connection:
        found = published_questions.doubts(connection)
    return list(found[found["source"] == source]["sentence"])


def published_beside(source: str, preset: str, study_name: str) -> tuple[str | None, list[Beside]]:
    """The newest job of this study, and the source's figures beside it; None and nothing where it has not run."""
    return _published_beside(publication(), source, preset, study_name)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _published_beside(
    publication: Publication, source: str, preset: str, study_name: str
) -> tuple[str | None, list[Beside]]:
    del publication
    with closing(open_warehouse(settings())) as connection:
        job_id = published_questions.repeating_job(connection, study_name)
        return job_id, [] if job_id is None else published_questions.beside(connection, source, preset, job_id)
