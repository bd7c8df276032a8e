"""Tables write numbers as cards and charts do."""

from __future__ import annotations

import pandas as pd
from pandas.io.formats.style import Styler

from webapp.shared.tables import columns, written

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


def test_a_column_without_any_value_is_hidden() -> None:
    frame = pd.DataFrame({"arm": ["draft", "head"], "basis": ["", None], "verdict": ["▲ faster", ""]})
    assert [name for name, column in shown(frame)[1].items() if column is None] == ["basis"]


def test_a_large_table_keeps_the_formats_of_its_columns() -> None:
    large = pd.DataFrame({"ratio": [1.5] * 7000})
    assert written(large, CONFIG) == (large, CONFIG)
