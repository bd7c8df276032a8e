"""The pages' only way to the warehouse and the job table.

What is read from the published file is cached by that file's identity: a new publication has another inode, so the next
read returns its data and the old entries expire. A page queries the warehouse with functions under `published_query`,
and caches derived values by `cached_by_publication` or `cached_figures`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import duckdb
import pandas as pd
import sqlalchemy as sa
import streamlit as st

from host import quiet
from host.settings import Settings, load_settings
from jobs import listing, queue
from jobs.fleet import worker_registry
from jobs.forecast import forecast_study, forecast_verdicts
from jobs.table import Job
from lab.comparison.agreement import Agreement
from lab.errors import QueryError, UserError
from lab.estimate import Estimate
from lab.planning.prospects import Prospects
from lab.study import Study
from warehouse.app_db import curated
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, refuse_newer_database
from warehouse.queries import results as queries
from warehouse.queries.comparing import comparisons
from warehouse.queries.comparing.comparisons import Pair, StudyComparison, compare_study
from warehouse.queries.comparing.ratio_tables import cell_values, with_ratios
from warehouse.queries.comparing.stored import FIRST
from warehouse.queries.connect import open_warehouse
from warehouse.queries.point_in_time import as_of, seen_as_of
from webapp.charts.theme import Drafting, Mode, drafting_in, drafting_of

P = ParamSpec("P")
T = TypeVar("T")
#: (path, inode, mtime in ns, size) of the published file, and the point in time at which it is seen; None before the
#: first.
Publication = tuple[str, int, int, int, str | None] | None
#: Draws the figures of a page from the parameters of its link.
Draw = Callable[[Mapping[str, Sequence[str]], Mode], T]
#: The connection of the page that is being drawn, and the app database's answers; None outside of `one_drawing`.
_CONNECTIONS: ContextVar[dict[Publication, duckdb.DuckDBPyConnection] | None] = ContextVar("connections", default=None)
_ANSWERS: ContextVar[dict[Hashable, Any] | None] = ContextVar("answers", default=None)
_NS_PER_S = 1e9
#: A newer Drafthouse may migrate the app database under pages that are open.
_REVISION_EVERY_S = 10.0
_MAX_ENTRIES = 64
_MAX_FIGURES = 128
#: The requests of a run may have ten thousand rows and more.
_MAX_REQUEST_TABLES = 16
#: Reading and judging a hundred thousand outputs takes a second.
_MAX_OUTPUTS = 20_000
#: Cache keys of studies, and of comparisons within a publication; their pairs have too many numbers to hash.
HASHES: dict[str | type[Any], Callable[[Any], Any]] = {
    Study: Study.digest,
    Pair: lambda pair: repr((pair.cell, pair.baseline.arm, pair.candidate.arm)),
    StudyComparison: lambda compared: repr(
        (
            *(compared.jobs, compared.metric, compared.baseline, compared.unit, compared.strict),
            None if compared.stored is None else compared.stored.judging,
            [(pair.cell, pair.candidate.arm) for pair in compared.pairs],
        )
    ),
}


@functools.cache
def settings() -> Settings:
    return load_settings()


@st.cache_resource(show_spinner=False, max_entries=1)
def _engine(url: str) -> sa.Engine:
    return app_engine(url)


@st.cache_resource(show_spinner=False, max_entries=1, ttl=_REVISION_EVERY_S)
def _refuse_newer(url: str) -> None:
    with suppress(*DATABASE_ERRORS):  # the next query reports it
        refuse_newer_database(_engine(url))


def engine() -> sa.Engine:
    """Return the app database. Raises UserError if it is missing or of another revision, even since it was opened; the
    next call checks again.
    """
    url = settings().app_database_url
    _refuse_newer(url)
    return _engine(url)


def publication() -> Publication:
    """Identify the published file and the point in time it is seen at; everything below depends on both."""
    path = settings().warehouse_file
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    moment = seen_as_of()
    return str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size, None if moment is None else moment.isoformat()


def rerun_when_published(shown: Publication, every: str = "2s") -> None:
    """Rerun the page at the first publication after the one that it shows."""

    def look() -> None:
        if publication() != shown:
            st.rerun()

    st.fragment(look, run_every=every)()


def published_at() -> datetime | None:
    """Return the timestamp of the shown data, or None before the first publication."""
    published = publication()
    if published is None:
        return None
    return seen_as_of() or datetime.fromtimestamp(published[2] / _NS_PER_S, UTC)


def cached_by_publication(
    max_entries: int = _MAX_ENTRIES, *, spinner: str | bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the newest `max_entries` results of a function for all visitors, until the next publication.

    Results are shared, so nobody may change them; only a table is given to each caller as a copy (which shares the
    values until it is changed: pandas' copy-on-write). Streamlit's own data cache would unpickle a table at each read.
    Errors are not cached.
    """

    def decorate(compute: Callable[P, T]) -> Callable[P, T]:
        @st.cache_resource(show_spinner=spinner, max_entries=max_entries, hash_funcs=HASHES)
        @functools.wraps(compute)
        def cached(*args: Any, publication: Publication, **named: Any) -> T:
            del publication  # part of the key
            return compute(*args, **named)

        @functools.wraps(compute)
        def answer(*args: P.args, **named: P.kwargs) -> T:
            result: T = cached(*args, publication=publication(), **named)
            return cast("T", result.copy(deep=False)) if isinstance(result, pd.DataFrame) else result

        return answer

    return decorate


def published_query(
    max_entries: int = _MAX_ENTRIES,
) -> Callable[[Callable[Concatenate[duckdb.DuckDBPyConnection, P], T]], Callable[P, T]]:
    """Call a function with a connection to the published warehouse, cached as by `cached_by_publication`.

    The function's first parameter is the connection, which callers leave out. Raises UserError without a warehouse.
    """

    def decorate(ask: Callable[Concatenate[duckdb.DuckDBPyConnection, P], T]) -> Callable[P, T]:
        return cached_by_publication(max_entries)(with_warehouse(ask))

    return decorate


def with_warehouse(ask: Callable[Concatenate[duckdb.DuckDBPyConnection, P], T]) -> Callable[P, T]:
    """Call a function with a connection to the published warehouse each time: for what is not worth caching."""

    @functools.wraps(ask)
    def asking(*args: P.args, **named: P.kwargs) -> T:
        def answer() -> T:
            with _connection() as connection:
                return ask(connection, *args, **named)

        return quiet.run_at_low_priority(settings().home, ask.__name__.strip("_"), answer)

    # Streamlit reads from the signature which arguments belong to the cache key.
    signature = inspect.signature(ask)
    asking.__signature__ = signature.replace(  # type: ignore[attr-defined]  # mypy does not know it of functions
        parameters=list(signature.parameters.values())[1:]
    )
    return asking


@contextmanager
def one_drawing() -> Iterator[None]:
    """Within this context open one connection to a publication, and answer `once_a_drawing` from memory."""
    connections: dict[Publication, duckdb.DuckDBPyConnection] = {}
    token, of_answers = _CONNECTIONS.set(connections), _ANSWERS.set({})
    try:
        yield
    finally:
        _CONNECTIONS.reset(token)
        _ANSWERS.reset(of_answers)
        for connection in connections.values():
            connection.close()


def once_a_drawing(ask: Callable[P, T]) -> Callable[P, T]:
    """Ask the app database the same question once while a page is drawn. A part that refreshes itself asks anew."""

    @functools.wraps(ask)
    def answer(*args: P.args, **named: P.kwargs) -> T:
        answers = _ANSWERS.get()
        if answers is None:
            return ask(*args, **named)
        question = (ask, args, tuple(sorted(named.items())))
        if question not in answers:
            answers[question] = ask(*args, **named)
        return cast("T", answers[question])

    return answer


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    connections, published = _CONNECTIONS.get(), publication()
    if connections is None:
        with closing(open_warehouse(settings().warehouse_file)) as connection:
            yield connection
        return
    if published not in connections:
        connections[published] = open_warehouse(settings().warehouse_file)
    yield connections[published]


def cached_figures(draw: Draw[T]) -> Draw[T]:
    """Cache the figures of a page by the parameters of its link and the mode.

    Building a chart takes tens of milliseconds, which every visitor would wait for again. `draw` may depend on nothing
    else that changes. A cached figure keeps its specifications too (`webapp.charts.vega_spec`).
    """

    @cached_by_publication(_MAX_FIGURES)
    @functools.wraps(draw)
    def cached(parameters: tuple[tuple[str, tuple[str, ...]], ...], mode: Mode) -> T:
        return draw(dict(parameters), mode)

    @functools.wraps(draw)
    def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> T:
        return cached(tuple((name, tuple(values)) for name, values in sorted(parameters.items())), mode)

    return figures


newest_event = once_a_drawing(listing.newest_event)
running_jobs = once_a_drawing(listing.running)
next_queued = once_a_drawing(listing.next_queued)
job_of_queue = once_a_drawing(queue.job)
curated_study = once_a_drawing(curated.find)
curated_studies = once_a_drawing(curated.all_curated)
workers = once_a_drawing(worker_registry.list_workers)
#: One row per job that has runs, newest first.
studies_with_results = published_query()(queries.jobs_with_results)
results = published_query()(queries.results)
_cell_values = published_query()(cell_values)
_comparison = published_query()(compare_study)
acceptance = published_query()(queries.acceptance_per_position)
failed_runs = published_query()(queries.failed_runs)
findings = published_query()(queries.findings)
run = published_query()(queries.run)
run_findings = published_query()(queries.run_findings)
telemetry = published_query()(queries.telemetry)
_drafting = published_query()(queries.arms)
requests_of = published_query(_MAX_REQUEST_TABLES)(queries.requests_of)
request_texts = published_query()(queries.request_texts)
whole_requests = with_warehouse(queries.whole_requests)


def job(job_id: str) -> Job | None:
    """Return a job of the queue; None for a study that is not in it, such as an imported one."""
    try:
        return job_of_queue(engine(), job_id)
    except UserError:
        return None


@cached_by_publication(max_entries=1)
def invalid_runs() -> Mapping[str, int]:
    """Return by job how many runs of its study are invalid, for studies of which any run is published."""
    if publication() is None:
        return {}
    studies = studies_with_results()
    return dict(zip(studies["job_id"], studies["runs_invalid"].astype(int).tolist(), strict=True))


@cached_by_publication()
def forecast(study: Study) -> Estimate:
    """Estimate the study's runs and seconds from the runs published so far."""
    return forecast_study(settings(), study)


@cached_by_publication()
def verdicts_forecast(study: Study) -> Prospects | None:
    """Estimate how many of the study's cells will be decided; None if that is unknown."""
    return forecast_verdicts(settings(), study)


@cached_by_publication()
def drafting() -> dict[str, Drafting]:
    """Return how each arm of the warehouse drafts; of arms of one name, the last that was measured."""
    runs = _drafting()
    return drafting_of(runs["arm"], runs["method"], runs["num_speculative_tokens"])


def arms(job_id: str) -> dict[str, Drafting]:
    """Return how each arm drafts, in the study's own order, or in the order of measuring if the study is not in this
    host's queue. The order is the same at any point in time, so an arm's colour is stable.
    """
    with as_of(None):
        return dict(_arms(job_id))


@cached_by_publication()
def cells(job_id: str, metric: str, judgement: str = FIRST) -> pd.DataFrame:
    """Return each arm in each cell of a study: its values, its ratio to the baseline, and the verdict."""
    return with_ratios(_cell_values(job_id, metric), comparison(job_id, metric, judgement))


def comparison(job_id: str, metric: str, judgement: str = FIRST) -> StudyComparison | None:
    """Return the study's comparison, or None if it has no valid baseline run."""
    try:
        return compared(job_id, metric, judgement=judgement)
    except QueryError:
        return None


def compared(
    job_id: str, metric: str, baseline: str | None = None, *, strict: bool = False, judgement: str = FIRST
) -> StudyComparison:
    """Compare a study: the verdicts stored when it ended, or those of another judgement, if they answer the question.

    Raises QueryError if `baseline`, or else the study's own, has no valid run, or a price is unknown.
    """
    return _comparison(job_id, metric, baseline=baseline, strict=strict, judgement=judgement)


def agreements(comparison: StudyComparison, *, without_limit: bool = False) -> list[Agreement] | None:
    """Return whether the outputs of each pair are the same; None if there are too many to read for a page."""
    if not without_limit and output_count(comparison.jobs[-1]) > _MAX_OUTPUTS:
        return None
    return _agreements(comparison)


def output_count(job_id: str) -> int:
    """Count the outputs of a job's completed requests."""
    runs = results(job_id)
    return int(runs.loc[runs["is_counted"], "requests_completed"].sum())


@cached_by_publication()
def _arms(job_id: str) -> dict[str, Drafting]:
    if (of_queue := job(job_id)) is not None:
        return drafting_in(of_queue.study)
    runs = results(job_id)
    return drafting_of(runs["arm"], runs["method"], runs["num_speculative_tokens"])


@published_query()
def _agreements(connection: duckdb.DuckDBPyConnection, compared: StudyComparison) -> list[Agreement]:
    return [agreed for _, agreed in comparisons.agreements(connection, compared)]
