"""A user's own SQL reads the warehouse, and can do nothing else, for ever or without end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab.errors import QueryError, UserError
from tests.warehouse.runs import write_run
from warehouse.ingest import ingest_all
from warehouse.sandbox import run_sql
from warehouse.settings import Settings


@pytest.fixture
def limited(settings: Settings) -> Settings:
    """A home with one run, short of time and memory."""
    write_run(settings.bundles)
    ingest_all(settings)
    return settings.model_copy(update={"sql_memory_mib": 256})


@pytest.mark.parametrize(
    "sql",
    [
        "select arm from results where origin = 'measured'",
        "from results select arm where origin = 'measured';",
        "with r as (select arm from runs) select * from r",
        "values ('draft')",
        "-- a comment; with a semicolon\nselect 'draft' -- end",
    ],
)
def test_statements_that_read_are_answered(limited: Settings, sql: str) -> None:
    assert run_sql(limited, sql).rows() == [["draft"]]


@pytest.mark.parametrize("sql", ["describe results", "show tables", "summarize runs", "explain select 1"])
def test_what_describes_the_warehouse_is_answered(limited: Settings, sql: str) -> None:
    assert run_sql(limited, sql).rows()


def test_values_come_out_as_json_takes_them(limited: Settings) -> None:
    sql = "select started_at, 1.5::decimal(3, 1) as d, 'nan'::double as n, [1, null] as l, {'a': 1} as s from runs"
    result = run_sql(limited, sql)
    assert result.columns == ("started_at", "d", "n", "l", "s")
    assert result.rows() == [["2026-11-21 04:00:00+00:00", "1.5", None, [1, None], {"a": 1}]]


@pytest.mark.parametrize(
    "sql",
    [
        "insert into runs select * from runs",
        "create table t as select 1",
        "drop table runs",
        "copy runs to '/tmp/drafthouse-test.csv'",
        "attach '/tmp/drafthouse-test.db'",
        "set memory_limit = '100GB'",
        "install httpfs",
        "call pragma_version()",
        "prepare p as select 1",
    ],
)
def test_other_statements_are_refused(limited: Settings, sql: str) -> None:
    with pytest.raises(QueryError, match=r"is only read here: .* is not allowed, SELECT is"):
        run_sql(limited, sql)


@pytest.mark.parametrize(("sql", "number"), [("select 1; select 2", 2), ("", 0), ("-- nothing", 0)])
def test_exactly_one_statement_is_taken(limited: Settings, sql: str, number: int) -> None:
    with pytest.raises(QueryError, match=f"one statement at a time, please: this is {number}"):
        run_sql(limited, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('http://127.0.0.1:1/x.csv')",
        "select * from glob('/*')",
        "explain analyze copy (select 1) to '/tmp/drafthouse-test.csv'",
    ],
)
def test_no_file_and_no_network_is_reached(limited: Settings, sql: str) -> None:
    with pytest.raises(QueryError, match="file system operations are disabled"):
        run_sql(limited, sql)
    assert not Path("/tmp/drafthouse-test.csv").exists()


@pytest.mark.parametrize("sql", ["select length(repeat('x', 3000000000))", "select range(1000000000)"])
def test_more_memory_than_the_limit_is_a_sentence(limited: Settings, sql: str) -> None:
    with pytest.raises(QueryError, match=r"(?i)out of memory"):
        run_sql(limited, sql)


def test_what_duckdb_cannot_interrupt_is_killed_in_time(limited: Settings) -> None:
    started = time.monotonic()
    with pytest.raises(QueryError, match="stopped after 3 s"):
        run_sql(
            limited.model_copy(update={"sql_timeout_s": 3.0}),
            "select levenshtein(repeat('a', 300000), repeat('b', 300000))",
        )
    assert time.monotonic() - started < 60  # left alone it takes many minutes


def test_a_mistake_is_answered_in_duckdbs_own_words(limited: Settings) -> None:
    with pytest.raises(QueryError, match='Referenced column "output_tok" not found'):
        run_sql(limited, "select output_tok from results")


def test_rows_past_the_limit_are_left_out_and_that_is_said(limited: Settings) -> None:
    result = run_sql(limited, "select * from range(5000)", max_rows=1500)
    assert (result.table.num_rows, result.truncated) == (1500, True)
    assert not run_sql(limited, "select * from range(1500)", max_rows=1500).truncated


def test_a_home_without_a_warehouse_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run `drafthouse migrate`"):
        run_sql(Settings(home=tmp_path), "select 1")
