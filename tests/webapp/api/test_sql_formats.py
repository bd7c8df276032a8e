"""An answer of SQL in each format: what it cannot have, what a spreadsheet would run, and how long it may be."""

from __future__ import annotations

import csv
import io
import json

import duckdb
import pyarrow as pa
import pytest

from lab.errors import QueryError
from warehouse.sandbox.runner import SqlResult, _refuse_repeated_texts
from webapp.api.sql_formats import Format, written

TEXTS = {
    "[1, 2]": "[1, 2]",
    "{'a': 1}": '{"a": 1}',
    "map {'a': 1}": '[["a", 1]]',
    "union_value(a := '=1')": "'=1",
    "'101'::bit": "05fd",
    "'a'::blob": "61",
    "interval 1 day": "[0, 1, 0]",
    "'=a'::enum('=a')": "'=a",
    "['=a'::enum('=a')]": '["=a"]',
    "'=cmd'": "'=cmd",
    "-1.5::decimal(9, 1)": "-1.5",
    "true": "true",
}


def result(sql: str) -> SqlResult:
    return SqlResult(duckdb.connect().execute(sql).to_arrow_table())


@pytest.mark.parametrize("value", TEXTS)
def test_every_kind_of_value_is_text_in_csv(value: str) -> None:
    text, left_out = written(result(f'select {value} as "=name"'), "csv")
    assert (list(csv.reader(io.StringIO(text.decode()))), left_out) == ([["'=name"], [TEXTS[value]]], "")


@pytest.mark.parametrize("as_format", ["json", "csv"])
def test_an_answer_is_cut_where_it_becomes_too_long(as_format: Format) -> None:
    plain = result("select i > 5 as a, i > 6 as b, 'ü' as c from range(200000) t(i)")
    content, left_out = written(plain, as_format, 1_000_000)
    assert 850_000 < len(content) <= 1_000_200
    assert left_out.startswith("only the first ")
    assert left_out.endswith("rows are shown: more would exceed 0.953674 MiB in this format")
    rows = json.loads(content)["rows"] if as_format == "json" else content.decode().splitlines()[1:]
    assert f"{len(rows):,} rows" in left_out
    with pytest.raises(QueryError, match="one row is larger"):
        written(result("select repeat('x', 2000) from range(3)"), as_format, 1000)


def test_json_is_what_it_was() -> None:
    shown, _ = written(result("select 1 as a, 'x' as b union all select 2, null order by a"), "json")
    assert json.loads(shown) == {"columns": ["a", "b"], "rows": [[1, "x"], [2, None]], "left_out": ""}
    assert json.loads(written(result("select 1 as a where false"), "json")[0])["rows"] == []


def test_what_parquet_cannot_have_is_a_sentence() -> None:
    halves = pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(QueryError, match="Parquet cannot hold this answer"):
        written(SqlResult(halves), "parquet")


@pytest.mark.parametrize("value", ["e", "[e]", "{'a': e}", "map {'k': e}", "union_value(u := e)", "[{'a': [e]}]"])
def test_long_texts_of_enums_count_as_often_as_they_occur(value: str) -> None:
    text = "x" * 1000

    def asked(rows: int) -> pa.Table:
        return result(f"select {value} as x from (select '{text}'::enum('{text}') as e from range({rows}))").table

    _refuse_repeated_texts(asked(30_000))
    with pytest.raises(QueryError, match="texts of enums in this answer would be over 32 MiB"):
        _refuse_repeated_texts(asked(34_000))
