"""The views that readers and SQL users query, each column with its meaning.

Views and comments follow from the declared columns. They are brought up to date whenever the ingester starts or
`drafthouse migrate` runs, so no revision creates them; a revision only marks when a view was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from host.settings import ARCHIVE_FOLDER
from warehouse.schema.column import Column, column
from warehouse.schema.judgement_columns import JUDGED_ARM_COLUMNS, JUDGED_METRIC_COLUMNS, JUDGEMENT_COLUMNS
from warehouse.schema.request_columns import IN_MICROSECONDS, REQUEST_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import METRIC_COLUMNS, RUN_ID, RUN_STARTED_AT, VERDICT_COLUMNS, WAREHOUSE

_RUN = {column.name: column for column in RUN_COLUMNS}
#: Columns of `runs` that the wide view leaves out, because they are long or rarely needed.
_NOT_IN_RESULTS = {"arm_json", "slo_json", "counters_before_json", "counters_after_json", "command_json"}
_NOT_IN_RESULTS |= {"environment_json", "effective_config_json", "format_version", "settings_json"}
_NOT_IN_RESULTS |= {"workload_json", "load_json", "log_begin_bytes", "log_end_bytes", "windows_json"}

_REVISION = "For Drafthouse itself"


#: Of a row with a job_id: its study is not deleted.
NOT_DELETED = "job_id NOT IN (SELECT job_id FROM curated_studies WHERE deleted_at IS NOT NULL)"


@dataclass(frozen=True)
class View:
    """A view: its columns in order, each with the SQL expression that gives it, and the rest of its SELECT."""

    name: str
    comment: str
    columns: tuple[tuple[str, Column], ...]
    source: str

    @property
    def sql(self) -> str:
        selected = ",\n    ".join(f'{expression} AS "{shown.name}"' for expression, shown in self.columns)
        return f'CREATE OR REPLACE VIEW "{self.name}" AS SELECT\n    {selected}\n{self.source}'


def _of(alias: str, columns: Iterable[Column]) -> tuple[tuple[str, Column], ...]:
    return tuple((f'{alias}."{column.name}"', column) for column in columns)


_CLOSED_LOOP = """CASE WHEN r.request_rate_rps IS NOT NULL OR coalesce(r.arrivals, 'gamma') <> 'gamma' THEN false
        WHEN r.origin = 'imported' AND r.concurrency IS NULL THEN NULL ELSE true END"""
_COMPUTED = (
    (
        "string_split(nullif(c.tags, ''), ',')",
        column("tags", "texts?", "of its study"),
    ),
    ("c.hidden_at IS NOT NULL", column("is_hidden", "bool?", "whether lists leave its study out")),
    (
        "coalesce(workload, '')",
        column("workload_label", "text", "workload, or empty if unknown"),
    ),
    (
        _CLOSED_LOOP,
        column(
            "closed_loop",
            "bool?",
            "whether a request follows the end of another",
        ),
    ),
)

_RENAMED = "study_name"
RESULTS = View(
    "results",
    "One row per run: what was run, on what, and its numbers. Without deleted studies, under the studies' later names",
    (
        *(
            (f"coalesce(c.name, {expression})" if shown.name == _RENAMED else expression, shown)
            for expression, shown in _of("r", RUN_COLUMNS)
            if shown.name not in _NOT_IN_RESULTS
        ),
        *_COMPUTED,
        *_of("v", VERDICT_COLUMNS),
        *_of("m", METRIC_COLUMNS),
    ),
    "FROM runs AS r JOIN run_metrics AS m USING (run_id) LEFT JOIN run_validity AS v USING (run_id)\n"
    "LEFT JOIN curated_studies AS c ON c.job_id = r.job_id WHERE c.deleted_at IS NULL\n"
    "UNION ALL BY NAME SELECT *, coalesce(workload, dataset) AS workload_label FROM published_runs",
)
#: The rule for which runs count, for every reader that compares, averages or pools runs.
VALID_LATEST_RUNS = View(
    "valid_latest_runs",
    "One row per cell: its last valid attempt, without trials of capacity searches",
    _of("results", (column for _, column in RESULTS.columns)),
    "FROM results WHERE status = 'completed' AND is_valid IS NOT false AND search IS NULL\n"
    "QUALIFY row_number() OVER (PARTITION BY job_id, cell_key ORDER BY attempt DESC, started_at DESC) = 1",
)
#: What the view `requests` shows of each request's run.
_IN_REQUESTS = (
    *("run_id", "job_id", "study_name", "target", "arm", "is_baseline", "method", "draft_model"),
    *("num_speculative_tokens", "dataset", "pattern", "concurrency", "repeat"),
)
REQUEST_RECORDS = View(
    "request_records",
    "One row per request, as measured. The view requests adds columns of its run",
    tuple(
        (f"{stored}::DOUBLE[]" if shown.name == IN_MICROSECONDS else stored, shown)
        for stored, shown in _of("q", (RUN_ID, *REQUEST_COLUMNS, RUN_STARTED_AT))
    ),
    "FROM recent_requests AS q",
)
REQUESTS = View(
    "requests",
    "One row per request: its times and latencies, and its run",
    (*_of("r", (_RUN[name] for name in _IN_REQUESTS)), *_of("q", REQUEST_COLUMNS)),
    f"FROM request_records AS q JOIN runs AS r USING (run_id) WHERE r.{NOT_DELETED}",
)
_JUDGINGS = """
    WITH here AS (SELECT * FROM judgements WHERE {of_job}),
    since AS (
        SELECT judgement_id, count(*) AS of_runs, count(*) FILTER (r.run_id IS NULL) AS removed,
            count(*) FILTER (v.is_valid = false) AS invalid, min(v.why_invalid[1]) FILTER (v.is_valid = false) AS why
        FROM (SELECT judgement_id, unnest(run_ids) AS run_id FROM here) AS rested
        LEFT JOIN (SELECT run_id FROM runs WHERE {of_job}) AS r USING (run_id)
        LEFT JOIN run_validity AS v USING (run_id)
        GROUP BY judgement_id
    ),
    more AS (
        SELECT judgement_id, count(*) AS added
        FROM here JOIN (FROM valid_latest_runs WHERE {of_job}) AS latest USING (job_id)
        WHERE concurrency IS NOT NULL AND pattern IS NOT NULL AND NOT list_contains(run_ids, run_id)
        GROUP BY judgement_id
    ),
    noise AS (
        SELECT judgement_id, count(DISTINCT job_id) AS deleted
        FROM (
            SELECT judgement_id, unnest(history_jobs) AS job_id FROM judged_metrics SEMI JOIN here USING (judgement_id)
        ) AS earlier
        JOIN (SELECT job_id FROM curated_studies WHERE deleted_at IS NOT NULL) AS gone USING (job_id)
        GROUP BY judgement_id
    )
    SELECT here.*, cause = 'ended' AND here.tries = max(here.tries) OVER (PARTITION BY here.job_id)
            AND coalesce(queued.state NOT IN ('queued', 'running'), true) AS is_default,
        nullif(concat_ws('; ',
            CASE WHEN removed > 0
                THEN concat(removed, ' of its ', of_runs, if(removed = 1, ' runs was', ' runs were'), ' removed') END,
            CASE WHEN invalid > 0 THEN concat(
                invalid, ' of its ', of_runs, if(invalid = 1, ' runs was', ' runs were'), ' found invalid: ', why) END,
            CASE WHEN added > 0
                THEN concat(added, if(added = 1, ' run was', ' runs were'), ' measured or restored since') END,
            CASE WHEN deleted > 0 THEN concat(
                deleted, if(deleted = 1, ' study that informed the noise was', ' studies that informed the noise were'),
                ' deleted') END
        ), '') AS changed_because
    FROM here LEFT JOIN since USING (judgement_id) LEFT JOIN more USING (judgement_id)
    LEFT JOIN noise USING (judgement_id)
    LEFT JOIN jobs AS queued ON queued.job_id = here.job_id
"""


def judgings(of_job: str = "") -> str:
    """Return a query of all columns of judgements, is_default and changed_because: what became of its runs since.

    `of_job` is a condition on job_id, which is applied before anything is joined.
    """
    return _JUDGINGS.format(of_job=f"{NOT_DELETED} AND {of_job}" if of_job else NOT_DELETED)


_JUDGED = {column.name: column for column in (*JUDGED_ARM_COLUMNS, *JUDGED_METRIC_COLUMNS, *JUDGEMENT_COLUMNS)}
COMPARISONS = View(
    "comparisons",
    "One row per arm, cell, metric and reading: stored verdicts. Pages and the command show those with is_default",
    (
        ("coalesce(c.name, j.study)", _JUDGED["study"]),
        *_of("a", (_JUDGED["arm"],)),
        *_of("m", (_JUDGED["baseline"],)),
        *_of("a", (_JUDGED[name] for name in ("workload", "load", "concurrency", "metric"))),
        *_of("m", (_JUDGED["unit"],)),
        *_of("a", (_JUDGED[name] for name in ("ratio", "low", "high", "verdict", "reading", "scope"))),
        *_of("j", (_JUDGED["as_of"],)),
        (
            "j.is_default",
            column("is_default", "bool", "whether it is the study's verdict, not a later judgement"),
        ),
        (
            "j.changed_because",
            column("changed_because", "text?", "what changed since, if the verdict may differ today"),
        ),
        *_of("a", (_JUDGED["basis"],)),
        *_of("m", (_JUDGED["history_jobs"],)),
        *_of("j", (_JUDGED[name] for name in ("run_ids", "analysis_version", "judged_at", "cause", "job_id"))),
        *_of("j", (_JUDGED["judgement_id"],)),
    ),
    "FROM judged_arms AS a JOIN judged_metrics AS m USING (judgement_id, metric)\n"
    f"JOIN ({judgings()}) AS j USING (judgement_id) LEFT JOIN curated_studies AS c ON c.job_id = j.job_id",
)
_SHOWN = {column.name: column for _, column in COMPARISONS.columns}
#: A faster arm's interval lies on one side of 1: below it if less is better. The surest has the most certain gain.
_LEAST_GAIN = "if(c.ratio < 1, 1 / c.high, c.low)"
_SUREST = (
    f"c.verdict = 'faster' DESC, c.scope = 'cell' DESC, c.reading = 'strict' DESC, {_LEAST_GAIN} DESC NULLS LAST, c.arm"
)


def _surest(name: str) -> tuple[str, Column]:
    """Return the column of the comparison that a line claims; null where no arm is better."""
    return f"first(if(c.verdict = 'faster', c.{name}, NULL) ORDER BY {_SUREST})", _SHOWN[name].or_null()


def _counted(name: str, verdict: str) -> tuple[str, Column]:
    counted = f"count(*) FILTER (c.scope = 'cell' AND c.reading = 'usual' AND c.verdict = '{verdict}')"
    return counted, column(name, "bigint", "number of such comparisons, by the usual reading")


#: The first line of a metric on pages and in the command, as columns.
ANSWERS = View(
    "answers",
    "One row per study, metric and judgement: its line on Results (the comparison with the surest gain), and how all "
    "comparisons came out",
    (
        *(("c." + name, _SHOWN[name]) for name in ("study", "metric", "unit", "baseline")),
        *map(_surest, ("arm", "workload", "load", "concurrency", "ratio", "low", "high", "reading")),
        _counted("better", "faster"),
        _counted("worse", "slower"),
        _counted("no_difference", "no difference"),
        _counted("inconclusive", "inconclusive"),
        *(("c." + name, _SHOWN[name]) for name in ("as_of", "is_default", "changed_because", "job_id", "judgement_id")),
    ),
    "FROM comparisons AS c WHERE (c.scope = 'cell' OR c.reading = 'usual') AND c.verdict <> 'control' GROUP BY ALL",
)
#: In an order in which each may read the ones before it.
VIEWS = (RESULTS, VALID_LATEST_RUNS, REQUEST_RECORDS, REQUESTS, COMPARISONS, ANSWERS)


#: How DuckDB writes down each view that this process described, by our SQL of it.
_AS_STORED: dict[str, str] = {}


def describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every view, and set the comment of every table, view and column, inside the caller's transaction.

    What is as it should be already is left alone: DuckDB has another copy of a view in memory for each of its comments
    until the transaction ends.
    """
    stored, comments = _stored(connection, "current_database()")
    for view in _views(connection):
        if stored.get(view.name) != _as_stored(connection, view):
            connection.execute(view.sql)
            comments = {name: comment for name, comment in comments.items() if name[0] != view.name}
    for (kind, name), comment in _described():
        if comments.get(name) != comment:
            target = ".".join(f'"{part}"' for part in name)
            connection.execute(f"COMMENT ON {kind} {target} IS '" + comment.replace("'", "''") + "'")


def _as_stored(connection: duckdb.DuckDBPyConnection, view: View) -> str:
    """Return the SQL that DuckDB stores for a view, from a temporary one, which leaves the database unchanged."""
    if view.sql not in _AS_STORED:
        connection.execute(view.sql.replace("CREATE OR REPLACE VIEW", "CREATE TEMP VIEW", 1))
        _AS_STORED[view.sql] = _stored(connection, "'temp'")[0][view.name]
        connection.execute(f'DROP VIEW temp."{view.name}"')
    return _AS_STORED[view.sql]


def _views(connection: duckdb.DuckDBPyConnection) -> Iterator[View]:
    """Yield the views of this database; `request_records` reads the files of its archive, too."""
    found = connection.execute("SELECT DISTINCT file FROM archived_runs ORDER BY file").fetchall()
    for view in VIEWS:
        yield replace(view, source=_with_files(connection, found)) if found and view is REQUEST_RECORDS else view


#: A file has the requests of runs, too, that were removed since, and perhaps restored, or archived into another one.
_ARCHIVED = """UNION ALL BY NAME SELECT * EXCLUDE (filename)
FROM read_parquet([{paths}], union_by_name = true, filename = true) AS of_file
SEMI JOIN archived_runs AS here ON here.run_id = of_file.run_id AND here.file = parse_filename(filename)"""


def _with_files(connection: duckdb.DuckDBPyConnection, files: Iterable[tuple[str]]) -> str:
    query = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    (database,) = connection.execute(query).fetchone() or ("",)
    folder = Path(database).absolute().parent / ARCHIVE_FOLDER
    paths = ", ".join("'" + str(folder / file).replace("'", "''") + "'" for (file,) in files)
    return f"{REQUEST_RECORDS.source}\n{_ARCHIVED.format(paths=paths)}"


def _described() -> Iterator[tuple[tuple[str, tuple[str, ...]], str]]:
    """Yield the kind, the name and the comment of every table, view and column."""
    for table in WAREHOUSE.sorted_tables:
        yield ("TABLE", (table.name,)), table.comment or ""
        for table_column in table.columns:
            yield ("COLUMN", (table.name, table_column.name)), table_column.comment or ""
    yield ("TABLE", ("alembic_version",)), _REVISION
    yield ("COLUMN", ("alembic_version", "version_num")), "revision of the warehouse's tables"
    for view in VIEWS:
        yield ("VIEW", (view.name,)), view.comment
        for _, shown in view.columns:
            yield ("COLUMN", (view.name, shown.name)), shown.comment


def _stored(
    connection: duckdb.DuckDBPyConnection, database: str
) -> tuple[dict[str, str], dict[tuple[str, ...], str | None]]:
    """Return each view's SQL, with the types that its columns had when it was created, and every comment by name."""
    # DuckDB quotes the name of a type in a new view until the file is opened again.
    tables = f"""SELECT table_name, comment, NULL FROM duckdb_tables() WHERE database_name = {database} UNION ALL
    SELECT view_name, comment, replace(replace(sql, 'CREATE TEMP VIEW', 'CREATE VIEW'), '"DOUBLE"', 'DOUBLE')
    FROM duckdb_views() WHERE database_name = {database} AND NOT internal"""  # noqa: S608 - databases are ours
    columns = f"""SELECT table_name, column_name, data_type, comment FROM duckdb_columns()
    WHERE database_name = {database} ORDER BY table_name, column_index"""  # noqa: S608
    views: dict[str, str] = {}
    comments: dict[tuple[str, ...], str | None] = {}
    for name, comment, sql in connection.execute(tables).fetchall():
        comments[name,] = comment
        if sql is not None:
            views[name] = sql
    for name, column_name, kind, comment in connection.execute(columns).fetchall():
        comments[name, column_name] = comment
        if name in views:
            views[name] += f"\n{kind}"
    return views, comments
