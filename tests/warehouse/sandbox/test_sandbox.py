"""A user's own SQL reads the warehouse. What it cannot do: test_sandbox_escapes, test_sandbox_bombs."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import QueryError, UserError
from tests.warehouse.runs import write_run
from warehouse.ingest.service import ingest_all
from warehouse.sandbox import runner
from warehouse.sandbox.runner import as_frame, run_sql


@pytest.fixture(scope="module")
def limited(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with one run, short of memory."""
    settings = Settings(home=tmp_path_factory.mktemp("asked") / "home", sql_memory_mib=256, sql_timeout_s=300)
    shutil.copytree(migrated, settings.home)
    write_run(settings.bundles)
    ingest_all(settings)
    return settings


@pytest.mark.parametrize(
    "sql",
    [
        "select arm from results where origin = 'measured'",
        "from results select arm where origin = 'measured';",
        "with r as (select arm from runs) select * from r",
        "values ('draft')",
        "-- a comment; with a semicolon\nselect 'draft' -- end",
        "select arm from runs window w as () qualify row_number() over w = 1",
        "select list_transform([arm], lambda a: a)[1] from runs",
        "from query('from runs select arm')",
        "pivot (from runs select arm, repeat) on repeat in (0) using any_value(arm)",
    ],
)
def test_statements_that_read_are_answered(limited: Settings, sql: str) -> None:
    assert run_sql(limited, sql).rows() == [["draft"]]


@pytest.mark.parametrize(
    "sql",
    [
        "describe results",
        "show tables",
        "show all tables",
        "summarize runs",
        "pragma table_info('runs')",
        "explain select 1",
        "explain /* ä */ analyze from runs",
        "explain (format json) select 1",
    ],
)
def test_what_describes_the_warehouse_is_answered(limited: Settings, sql: str) -> None:
    assert run_sql(limited, sql).rows()


def test_values_come_out_as_json_takes_them(limited: Settings) -> None:
    sql = "select started_at, 1.5::decimal(3, 1) as d, 'nan'::double as n, [1, null] as l, {'a': 1} as s from runs"
    result = run_sql(limited, sql)
    assert result.columns == ("started_at", "d", "n", "l", "s")
    assert result.rows() == [["2026-11-21 04:00:00+00:00", "1.5", None, [1, None], {"a": 1}]]


@pytest.mark.parametrize(("sql", "number"), [("select 1; select 2", 2), ("", 0), ("-- nothing", 0)])
def test_exactly_one_statement_is_taken(limited: Settings, sql: str, number: int) -> None:
    with pytest.raises(QueryError, match=f"one statement at a time: this text has {number}"):
        run_sql(limited, sql)


def test_a_mistake_is_answered_in_duckdbs_own_words(limited: Settings) -> None:
    with pytest.raises(QueryError, match='Referenced column "output_tok" not found'):
        run_sql(limited, "select output_tok from results")


def test_a_statement_longer_than_duckdbs_two_quiet_seconds_is_answered(limited: Settings) -> None:
    rows, took_s, start_s = 200_000_000, 0.0, _seconds(limited, "select 1")
    while took_s < start_s + 2.5:  # DuckDB draws a progress bar from the second second on
        rows *= 2
        took_s = _seconds(limited, f"select count(hash(i)) from range({rows}) t(i)", rows)


def _seconds(settings: Settings, sql: str, number: int = 1) -> float:
    before_s = time.monotonic()
    assert run_sql(settings, sql).rows() == [[number]]
    return time.monotonic() - before_s


def test_what_libraries_print_does_not_get_into_the_answer(limited: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = "print('stray', flush=True); os.write(1, b'stray')"
    loud = runner._CHILD.replace("sys.exit(", f"{prints}; status = ")[:-1] + f"; {prints}; sys.exit(status)"
    monkeypatch.setattr(runner, "_CHILD", loud)
    assert run_sql(limited, "select 'draft'").rows() == [["draft"]]
    with pytest.raises(QueryError, match='Referenced column "nothing" not found') as refused:
        run_sql(limited, "select nothing from results")
    assert "stray" not in str(refused.value)


def test_rows_past_the_limit_are_left_out_and_that_is_said(limited: Settings) -> None:
    result = run_sql(limited, "select * from range(5000)", max_rows=1500)
    assert (result.table.num_rows, bool(result.left_out)) == (1500, True)
    assert not run_sql(limited, "select * from range(1500)", max_rows=1500).left_out


def test_two_columns_of_one_name_are_both_given(limited: Settings) -> None:
    result = run_sql(limited, "select 1 as a, 2 as a, 3 as a_1, 4 as a")
    assert (result.columns, result.rows()) == (("a", "a_2", "a_1", "a_3"), [[1, 2, 3, 4]])
    assert list(as_frame(result.table).columns) == ["a", "a_2", "a_1", "a_3"]


@pytest.mark.parametrize("value", ["'infinity'::date", "['infinity'::timestamp]"])
def test_a_day_after_the_last_year_is_shown_as_text(limited: Settings, value: str) -> None:
    result = run_sql(limited, f"select {value} as day")
    with pytest.raises(QueryError, match=r'values of "day" cannot be shown .*: select "day"::varchar'):
        result.rows()
    assert "infinity" in str(run_sql(limited, f"select ({value})::varchar as day").rows())


def test_a_home_without_a_warehouse_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run `drafthouse migrate`"):
        run_sql(Settings(home=tmp_path), "select 1")


def test_the_process_of_a_question_imports_no_pandas_site_or_sqlalchemy(
    limited: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_its_end = runner._CHILD.replace("sys.exit(", "status = ")[:-1]
    look = "assert not {'pandas', 'site', 'sqlalchemy'} & set(sys.modules), sorted(sys.modules)"
    monkeypatch.setattr(runner, "_CHILD", f"{before_its_end}; {look}; sys.exit(status)")
    assert run_sql(limited, "select arm, tpot_p50_ms > 0 from runs join run_metrics using (run_id)").rows() == [
        ["draft", True]
    ]
