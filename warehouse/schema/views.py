"""The two views that users query, each column with its meaning.

Views and comments follow from the declared columns, so they are made anew whenever the ingester starts or
`drafthouse migrate` runs, and stand in no revision.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from warehouse.schema.column import Column
from warehouse.schema.request_columns import REQUEST_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import METRIC_COLUMNS, VERDICT_COLUMNS, WAREHOUSE

_RUN = {column.name: column for column in RUN_COLUMNS}
#: Columns of `runs` that the wide view leaves out, because they are long texts or matter to few.
_NOT_IN_RESULTS = {"arm_json", "slo_json", "counters_before_json", "counters_after_json", "command_json"}
_NOT_IN_RESULTS |= {"environment_json", "effective_config_json", "format_version", "settings_json"}
_NOT_IN_RESULTS |= {"workload_json", "load_json", "log_begin_bytes", "log_end_bytes"}

_REVISION = "One row: which revision of its tables the warehouse has, for Drafthouse itself"


@dataclass(frozen=True)
class View:
    """A view: its columns in order, each from one of its tables by the alias given."""

    name: str
    comment: str
    columns: tuple[tuple[str, Column], ...]
    source: str

    @property
    def sql(self) -> str:
        selected = ",\n    ".join(f'{alias}."{column.name}"' for alias, column in self.columns)
        return f'CREATE OR REPLACE VIEW "{self.name}" AS SELECT\n    {selected}\n{self.source}'


RESULTS = View(
    "results",
    "One row a run, whatever its origin: what was run, on what, and its numbers; null means unknown, never zero",
    (
        *(("r", column) for column in RUN_COLUMNS if column.name not in _NOT_IN_RESULTS),
        *(("v", column) for column in VERDICT_COLUMNS),
        *(("m", column) for column in METRIC_COLUMNS),
    ),
    "FROM runs AS r JOIN run_metrics AS m USING (run_id) LEFT JOIN verdicts AS v USING (run_id)\n"
    "UNION ALL BY NAME FROM published_runs",
)
REQUESTS = View(
    "requests",
    "One row a request: when it was sent and answered, its latencies, and the run it belongs to",
    (
        *(
            ("r", _RUN[name])
            for name in ("run_id", "job_id", "study_name", "target", "arm", "is_baseline", "method", "draft_model")
        ),
        *(("r", _RUN[name]) for name in ("num_speculative_tokens", "dataset", "pattern", "concurrency", "repeat")),
        *(("q", column) for column in REQUEST_COLUMNS),
    ),
    "FROM request_records AS q JOIN runs AS r USING (run_id)",
)
VIEWS = (RESULTS, REQUESTS)


def describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Make every view, and set the comment of every table, view and column, inside the caller's transaction."""
    for table in WAREHOUSE.sorted_tables:
        connection.execute(f'COMMENT ON TABLE "{table.name}" IS {_quoted(table.comment or "")}')
        for column in table.columns:
            _comment_column(connection, table.name, column.name, column.comment or "")
    connection.execute(f"COMMENT ON TABLE alembic_version IS {_quoted(_REVISION)}")
    _comment_column(connection, "alembic_version", "version_num", "revision of the warehouse's tables")
    for view in VIEWS:
        connection.execute(view.sql)
        connection.execute(f'COMMENT ON VIEW "{view.name}" IS {_quoted(view.comment)}')
        for _, shown in view.columns:
            _comment_column(connection, view.name, shown.name, shown.comment)


def _comment_column(connection: duckdb.DuckDBPyConnection, table: str, column: str, comment: str) -> None:
    connection.execute(f'COMMENT ON COLUMN "{table}"."{column}" IS {_quoted(comment)}')


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
