"""Tables write numbers as cards and charts do; their columns are declared once, of metrics by their catalogue."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import pytest
from pandas.io.formats.style import Styler

import webapp
from lab.metrics.catalogue import BY_NAME
from webapp.shared.tables import COLUMNS, MINUTE, Column, columns, same_in_all, with_room_for_names, written

CONFIG = columns("arm", "verdict", "ratio", "low", "high", "repeats", "basis") | {
    "cost": {"type_config": {"type": "number", "format": "%,.4g"}}
}


def shown(frame: pd.DataFrame) -> tuple[str, dict[str, object]]:
    styler, config = written(frame, CONFIG)
    assert isinstance(styler, Styler)
    assert styler.data.equals(frame)  # type: ignore[attr-defined]  # by which the table is sorted
    return styler.to_html(), config


def test_a_ratio_stands_with_its_interval_and_sorts_as_a_number() -> None:
    frame = pd.DataFrame(
        {"ratio": [1.478, 1.0734, None], "low": [1.361, 1.0731, None], "high": [1.604, 1.0737, None]}, dtype=float
    )
    html, config = shown(frame.assign(cost=[14.8579, 0.000475452, 12345.6]))
    for text in ("1.48× [1.36, 1.60]", "1.0734× [1.0731, 1.0737]", "14.9", "0.000475", "12,346"):
        assert f">{text}<" in html
    assert "nan" not in html
    assert config["low"] is config["high"] is None


def test_equal_ratios_keep_the_intervals_of_their_own_rows() -> None:
    html, _ = shown(pd.DataFrame({"ratio": [1.0, 1.0, 1.0], "low": [0.9, 0.5, None], "high": [1.1, 2.0, None]}))
    for text in ("1.00× [0.90, 1.10]", "1.00× [0.50, 2.00]", "1.00×"):
        assert html.count(f">{text}<") == 1


def test_an_answer_of_a_query_keeps_the_columns_of_its_intervals() -> None:
    answer = pd.DataFrame({"ratio": [1.5, 1.5], "low": [1.2, 0.0001], "high": [1.9, 24334.3]})
    styler, config = written(answer, {})
    assert isinstance(styler, Styler)
    assert styler.data.equals(answer)  # type: ignore[attr-defined]
    assert config == {}


def test_a_column_without_any_value_is_hidden() -> None:
    frame = pd.DataFrame({"arm": ["draft", "head"], "basis": ["", None], "verdict": ["▲ faster", ""]})
    assert [name for name, column in shown(frame)[1].items() if column is None] == ["basis"]


def test_a_large_table_keeps_the_formats_of_its_columns() -> None:
    large = pd.DataFrame({"ratio": [1.5] * 7000})
    assert written(large, CONFIG) == (large, CONFIG)


def test_numbers_of_unknown_meaning_have_three_digits_and_whole_ones_no_decimals() -> None:
    frame = pd.DataFrame(
        {
            "whole": [44.0, None, 1234567.0],
            "mixed": [44.0, 1234.56, 0.00021],
            "far": [1e300, 1.5e-9, -math.inf],
            "count": [1, 2, 3],
        }
    )
    html, _ = shown(frame)
    for text in ("44", "1,234,567", "44.0", "1,235", "0.000210", "1e+300", "1.5e-09", "-inf", "3"):
        assert f">{text}<" in html
    assert ".000000" not in html


def test_the_column_of_names_has_room_for_the_longest() -> None:
    frame = pd.DataFrame({"arm": ["no draft"] * 20 + ["EAGLE-3 k=3, short context"], "repeats": 1})
    config = columns("arm", "repeats")
    assert config["arm"]["width"] is None
    assert with_room_for_names(frame, config)["arm"]["width"] > 6 * len("EAGLE-3 k=3, short context")
    assert with_room_for_names(frame[:20], config)["arm"]["width"] < 100
    assert with_room_for_names(frame, config)["repeats"] == config["repeats"]


def test_equal_unmeasured_values_of_all_rows_are_shown_once() -> None:
    frame = pd.DataFrame({"arm": ["a", "b"], "k": [3.0, 3.0], "is_valid": [True, True], "ratio": [1.5, 1.5]})
    config = columns("arm", "k", "is_valid", "ratio")
    assert same_in_all(frame, config) == {"k": ("Draft tokens k", "3"), "is_valid": ("Valid", "yes")}
    assert same_in_all(frame[:1], config) == {}
    assert same_in_all(frame.assign(k=[3.0, math.nan], is_valid=[True, False]), config) == {}


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
