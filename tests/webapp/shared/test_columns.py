"""Columns of tables: declared once, of metrics by their catalogue, and a table's exceptions beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import webapp
from lab.metrics.catalogue import BY_NAME
from webapp.shared.tables import COLUMNS, MINUTE, Column, columns


def test_a_metric_has_the_heading_and_formula_of_its_catalogue() -> None:
    metric = BY_NAME["ttft_p50_ms"]
    shown = columns("ttft_p50_ms")["ttft_p50_ms"]
    assert (shown["label"], shown["help"]) == (metric.heading, metric.formula)
    assert shown["type_config"]["format"] == f"%{metric.number_format}"


def test_a_table_changes_only_what_it_names_of_a_column() -> None:
    declared, narrow = columns("ratio")["ratio"], columns(ratio={"width": 90})["ratio"]
    assert narrow == declared | {"width": 90}


def test_only_the_named_column_stays_in_sight() -> None:
    shown = columns("arm", "workload", pinned="workload", own=Column("Own"))
    assert {name: bool(column["pinned"]) for name, column in shown.items()} == {
        "arm": False,
        "workload": True,
        "own": False,
    }


def test_a_column_that_nobody_declares_is_refused() -> None:
    with pytest.raises(KeyError):
        columns("no_such_column")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("x"), "text"),
        (Column("x", "%d"), "number"),
        (Column("x", MINUTE), "datetime"),
        (Column("x", "YYYY-MM-DD"), "date"),
        (Column("x", link_text="open"), "link"),
        (Column("x", is_flag=True), "checkbox"),
        (Column("x", states={"done": "green"}), "multiselect"),
    ],
)
def test_a_column_has_the_kind_that_its_declaration_implies(column: Column, kind: str) -> None:
    assert column.config()["type_config"]["type"] == kind


def test_no_declared_column_hides_a_metric_of_the_same_name() -> None:
    assert not set(COLUMNS) & set(BY_NAME)


def test_pages_make_no_columns_by_hand() -> None:
    by_hand = re.compile(r"column_config\.\w+Column")
    files = Path(webapp.__file__).parent.rglob("*.py")
    assert [file.name for file in files if by_hand.search(file.read_text(encoding="utf-8"))] == []
