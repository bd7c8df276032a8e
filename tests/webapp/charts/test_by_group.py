"""The charts of contexts and of quality: what their marks say, and where nothing is sure."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from lab.comparison.effect import Interval
from lab.comparison.surface import SurfaceCell, surface
from webapp.charts.by_group import surface_panel
from webapp.charts.compare import quality_panel
from webapp.charts.theme import arm_styles
from webapp.pages.compare import tables


def layers(chart: Any, kind: str) -> list[dict[str, Any]]:
    """The layers of a chart whose mark is of this kind."""
    drawn: list[dict[str, Any]] = json.loads(chart.to_json())["layer"]
    return [layer for layer in drawn if layer["mark"]["type"] == kind]


def test_a_cell_says_its_gain_its_interval_and_the_length_it_needs() -> None:
    sure = (Interval(1.6, 1.5, 1.7), Interval(0.8, 0.75, 0.85))
    cells = [SurfaceCell(4**place, 512, gain, 2.0, "faster") for place, gain in enumerate(sure)]
    found = {"draft": surface(cells)}
    rows, lines = tables.surface_cells(found), tables.surface_lines(found)
    assert rows[["figure", "interval", "needed_value"]].to_numpy().tolist() == [
        ["1.60× ▲", "[1.50, 1.70]", "1.25"],
        ["0.80× ▲", "[0.75, 0.85]", "2.50"],
    ]
    chart = surface_panel(rows, lines, 1.0, "light")
    assert [layer["encoding"]["text"]["field"] for layer in layers(chart, "text")] == ["figure", "interval", "needs"]


def test_a_crossing_without_an_interval_has_no_bar_and_a_pale_mark() -> None:
    cells = [SurfaceCell(1, 512, Interval(1.2, None, None)), SurfaceCell(4, 512, Interval(0.9, None, None))]
    found = {"draft": surface(cells)}
    chart = surface_panel(tables.surface_cells(found), tables.surface_lines(found), 1.0, "dark")
    (bar,), (tick,) = layers(chart, "bar"), layers(chart, "tick")
    assert bar["transform"] == [{"filter": "isValid(datum.low) || isValid(datum.high)"}]
    assert tick["encoding"]["opacity"] == {
        "condition": {"test": "isValid(datum.low) && isValid(datum.high)", "value": 1.0},
        "value": 0.4,
    }


def test_an_arms_verdict_on_quality_stands_beside_its_difference() -> None:
    row = {"arm": "draft", "workload": "w", "quality": "not worse", "difference": "+0.0 [-2.0, +2.0]"}
    rows = pd.DataFrame([row | {"points": 0.0, "low": -2.0, "high": 2.0, "prompts": 400}])
    chart = quality_panel(rows, 5.0, arm_styles(["base", "draft"], "base", "light"), "light")
    assert [layer["encoding"]["text"]["field"] for layer in layers(chart, "text")] == ["quality", "difference"]
