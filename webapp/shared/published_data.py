"""The pages' only way to the warehouse and the job table.

What is read from the published file is cached by that file's identity: a new publication has another inode, so its data
is seen at the next look and the old entries fall out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs import queue
from jobs.forecast import forecast_study
from lab.comparison.agreement import Agreement
from lab.errors import QueryError, UserError
from lab.estimate import Estimate
from lab.study import Study
from warehouse.database import app_engine, open_warehouse
from warehouse.queries import comparisons
from warehouse.queries import results as queries
from warehouse.queries.comparisons import StudyComparison, compare_study
from warehouse.queries.point_in_time import as_of, seen_as_of
from warehouse.settings import Settings, load_settings
from webapp.shared.cached_frames import kept_frame

#: (path, inode, mtime in ns, size) of the published file, and as of which moment it is seen; None before the first one.
Publication = tuple[str, int, int, int, str | None] | None
_NS_PER_S = 1e9
_MOST_KEPT = 64
_MOST_FRAMES = 256
#: Of one run: each may have ten thousand rows and more.
_MOST_ANSWERS = 16
#: Reading and judging a hundred thousand outputs takes a second.
_MOST_OUTPUTS = 20_000


@functools.cache
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
    """Identifies the published file and the point in time it is seen at; everything below depends on both."""
    path = settings().warehouse_file
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    moment = seen_as_of()
    return str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size, None if moment is None else moment.isoformat()


def shown_as_of() -> datetime | None:
    """The moment of the data that is read here; None where there is none yet."""
    published = publication()
    if published is None:
        return None
    return seen_as_of() or datetime.fromtimestamp(published[2] / _NS_PER_S, UTC)


def forecast(study: Study) -> Estimate:
    """What the study asks of its machine, by the runs published so far."""
    return _forecast(publication(), study.digest(), study)


def studies_with_results() -> pd.DataFrame:
    """One row per job that has runs, newest first. Raises UserError where there is no warehouse to read."""
    return _frame(queries.jobs_with_results)


def results(job_id: str) -> pd.DataFrame:
    return _frame(queries.results, job_id)


def arms(job_id: str) -> list[str]:
    """In the study's own order; as they were measured where this host's queue does not know the study.

    The same as of any moment, so that an arm keeps its colour.
    """
    with as_of(None):
        return list(_arms(publication(), job_id))


def speedup(job_id: str, metric: str) -> pd.DataFrame:
    return _frame(queries.speedup, job_id, metric)


def acceptance(job_id: str) -> pd.DataFrame:
    return _frame(queries.acceptance_per_position, job_id)


def failed_runs(job_id: str) -> pd.DataFrame:
    return _frame(queries.failed_runs, job_id)


def run(run_id: str) -> pd.DataFrame:
    return _frame(queries.run, run_id)


def run_findings(run_id: str) -> pd.DataFrame:
    return _frame(queries.run_findings, run_id)


def requests_of(run_id: str) -> pd.DataFrame:
    return _requests_of(publication(), run_id)


def telemetry(run_id: str) -> pd.DataFrame:
    return _frame(queries.telemetry, run_id)


def findings(job_id: str) -> pd.DataFrame:
    return _frame(queries.findings, job_id)


def comparison(job_id: str, metric: str) -> StudyComparison | None:
    """None where there is no valid baseline to compare with."""
    try:
        return compared(job_id, metric)
    except QueryError:
        return None


def compared(job_id: str, metric: str, baseline: str | None = None) -> StudyComparison:
    """Raises QueryError where `baseline`, or else the study's own, has no valid run, and where a price is unknown."""
    return _comparison(publication(), job_id, metric, baseline)


def agreements(
    job_id: str, metric: str, found: StudyComparison, *, however_many: bool = False
) -> list[Agreement] | None:
    """Of each pair of `found`, whether the outputs are the same; None of more outputs than a page can wait for."""
    if not however_many and outputs_of(job_id) > _MOST_OUTPUTS:
        return None
    return _agreements(publication(), job_id, metric, found.baseline, found)


def outputs_of(job_id: str) -> int:
    """How many outputs there are to compare."""
    return int(results(job_id)["requests_completed"].sum())


def _frame(question: Callable[..., pd.DataFrame], *asked: str) -> pd.DataFrame:
    """The answer to one of `warehouse.queries.results`."""
    return _asked(publication(), question.__name__, asked, question)


@kept_frame(_MOST_FRAMES)
def _asked(
    publication: Publication, name: str, asked: tuple[str, ...], _question: Callable[..., pd.DataFrame]
) -> pd.DataFrame:
    del publication, name  # with the others the key: the function itself is not hashed
    with closing(open_warehouse(settings())) as connection:
        return _question(connection, *asked)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _arms(publication: Publication, job_id: str) -> tuple[str, ...]:
    del publication
    try:
        return tuple(arm.name for arm in queue.job(engine(), job_id).study.arms)
    except UserError:
        return tuple(dict.fromkeys(results(job_id)["arm"].dropna()))


@st.cache_data(show_spinner=False, max_entries=_MOST_KEPT)
def _forecast(publication: Publication, digest: str, _study: Study) -> Estimate:
    del publication, digest
    return forecast_study(settings(), _study)


@kept_frame(_MOST_ANSWERS)
def _requests_of(publication: Publication, run_id: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return queries.requests_of(connection, run_id)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _comparison(publication: Publication, job_id: str, metric: str, baseline: str | None) -> StudyComparison:
    del publication
    with closing(open_warehouse(settings())) as connection:
        return compare_study(connection, job_id, metric, baseline=baseline)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _agreements(
    publication: Publication, job_id: str, metric: str, baseline: str, _found: StudyComparison
) -> list[Agreement]:
    del publication, job_id, metric, baseline
    with closing(open_warehouse(settings())) as connection:
        return [agreed for _, agreed in comparisons.agreements(connection, _found)]
