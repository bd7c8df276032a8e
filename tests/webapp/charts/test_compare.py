"""Charts of the Compare and Advice pages, and the rows behind them."""

from __future__ import annotations

import json
from typing import Any, get_args

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

from lab.comparison.acceptance import Counts, pooled, with_fewer_tokens
from lab.comparison.breakeven import Point, break_even
from lab.comparison.effect import Interval
from lab.comparison.verdict import MARKS, Word
from lab.metrics import histogram
from webapp.charts import axes, compare, deploy, interactivity, marks, theme, vega_spec
from webapp.charts.compare import Side
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.compare import tables

STYLES = theme.arm_styles(["no draft", "draft"], "no draft", "light")
ROWS, COLUMNS = Side("workload", ("code", "prose")), Side("load", ("c1", "c16"))


def cells(*ratios: float | None) -> pd.DataFrame:
    """Rows of `tables.heat`, two to a workload."""
    verdicts = list(get_args(Word))[:4]
    return pd.DataFrame(
        {
            "arm": "draft",
            "row": ["code", "code", "prose", "prose"],
            "column": ["c1", "c16"] * 2,
            "is_mean": False,
            "ratio": ratios,
            "low": [0.9, np.nan, 0.9, 0.9],
            "high": [1.1, np.nan, 1.1, 1.1],
            "verdict": verdicts,
            "basis": "3 repeats",
        }
    )


def layers(chart: alt.LayerChart) -> list[dict[str, Any]]:
    """With each layer's rows in it."""
    spec = vega_spec.plain(theme.themed(chart, "light"))
    shared = spec.get("data", {}).get("name")
    drawn = [{**layer, "rows": spec["datasets"][layer.get("data", {}).get("name", shared)]} for layer in spec["layer"]]
    assert "<svg" in vl_convert.vegalite_to_svg(json.dumps(spec))
    return drawn


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_heat_map_is_coloured_by_the_logarithm_and_says_each_verdict(mode: Mode) -> None:
    rows = cells(2.0, 0.5, 1.0, 1.5)
    far = compare.heat_reach(rows)
    assert far == 1.0  # twice as fast is as far from 1 as half as fast
    drawn = layers(compare.heat_panel(rows, ROWS, COLUMNS, far, mode, higher=True))
    scale = drawn[0]["encoding"]["color"]["scale"]
    assert scale["domain"] == [-1.0, 0, 1.0]
    figures = [row["figure"] for row in drawn[1]["rows"]]
    assert figures == ["2.00× ▲", "0.50× ▼", "1.00× =", "1.50× ?"]
    assert [row["interval"] for row in drawn[1]["rows"]] == ["[0.90, 1.10]", "", "[0.90, 1.10]", "[0.90, 1.10]"]


def test_every_verdict_has_a_mark_of_its_own() -> None:
    assert set(MARKS) == set(get_args(Word))
    assert len(set(MARKS.values())) == len(MARKS)


def test_lower_latencies_have_the_colour_of_the_better() -> None:
    rows = cells(2.0, 0.5, 1.0, 1.5)
    higher, lower = (
        layers(compare.heat_panel(rows, ROWS, COLUMNS, 1.0, "light", higher=higher))[0]["encoding"]["color"]["scale"][
            "range"
        ]
        for higher in (True, False)
    )
    assert higher == lower[::-1]


def test_a_cell_without_a_ratio_is_empty_and_small_ratios_pale() -> None:
    rows = cells(1.01, None, 0.99, 1.0)
    assert compare.heat_reach(rows) == 0.25
    assert len(layers(compare.heat_panel(rows, ROWS, COLUMNS, 0.25, "light", higher=True))[0]["rows"]) == 3


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("opacity", [1.0, 0.78])
def test_text_on_a_tile_of_any_colour_can_be_read(mode: Mode, opacity: float) -> None:
    ground = marks.channels(theme.INKS[mode].ground)
    for share in np.linspace(-1, 1, 201):
        mixed = marks.tile_colour(mode, share)
        tile = [opacity * above + (1 - opacity) * below for above, below in zip(mixed, ground, strict=True)]
        ink = "#ffffff" if marks.is_dark(mode, share, opacity=opacity) else "#000000"
        assert marks.contrast(marks.channels(ink), tile) > 4.5, (share, ink)


def test_cells_with_long_figures_get_wider_columns() -> None:
    short = cells(1.48, 0.52, 0.98, 1.5)
    exact = short.assign(low=short["ratio"] - 0.0004, high=short["ratio"] + 0.0004)
    assert compare.heat_width(short, ROWS, COLUMNS) == ROWS.name_width + 2 * 70
    assert compare.heat_width(exact, ROWS, COLUMNS) >= ROWS.name_width + 2 * len("[1.4796, 1.4804]") * 5.4


def gains() -> pd.DataFrame:
    """An arm that pays at low concurrency; the interval at 16 reaches very far."""
    return pd.DataFrame(
        {
            "arm": "draft",
            "workload": "code",
            "pattern": ["c1", "c4", "c16"],
            "concurrency": [1, 4, 16],
            "ratio": [1.5, 1.1, 0.8],
            "low": [1.4, 1.05, 0.01],
            "high": [1.6, 1.15, 60.0],
            "verdict": ["faster", "faster", "inconclusive"],
            "basis": "3 repeats",
        }
    )


def test_where_an_arm_stops_paying_is_marked_with_its_interval() -> None:
    points = [
        Point(float(n), Interval(*bounds))
        for n, *bounds in ((1, 1.5, 1.4, 1.6), (4, 1.1, 0.97, 1.2), (16, 0.8, 0.7, 0.9))
    ]
    crossings = tables.crossings({("draft", "code"): break_even(points)})
    setting = compare.RatioSetting("Speed-up (×)", (0.5, 2.0), STYLES, "light", loss_is_low=True)
    drawn = layers(compare.break_even_panel(gains(), crossings, setting))
    (fill,) = [layer["encoding"]["fillOpacity"] for layer in drawn if "fillOpacity" in layer["encoding"]]
    assert fill["condition"] == {"test": "datum.verdict === 'inconclusive'", "value": 0}
    mark = drawn[-1]
    assert mark["encoding"]["x"]["field"] == "concurrency"
    (row,) = mark["rows"]
    assert 4 < row["concurrency"] < 16
    assert row["low"] < row["concurrency"] < row["high"]
    interval = f"[{row['low']:.1f}, {row['high']:.1f}]"
    assert crossings["answer"].tolist() == [f"pays up to concurrency {row['concurrency']:.1f} {interval}"]


def test_an_arm_that_pays_everywhere_is_said_so_without_a_crossing() -> None:
    even = break_even([Point(1.0, Interval(1.5, 1.4, 1.6)), Point(4.0, Interval(1.2, 1.1, 1.3))])
    crossings = tables.crossings({("draft", "code"): even})
    assert crossings["answer"].tolist() == ["pays everywhere measured (1 to 4)"]
    assert crossings["concurrency"].isna().all()


def test_a_wide_interval_does_not_press_the_ratios_together() -> None:
    low, high = axes.ratio_domain(gains())
    assert low > 0.3
    assert high < 4


def test_estimates_for_fewer_tokens_are_marked_and_what_was_measured_is_not() -> None:
    measured = pooled([Counts(100, 300, 160, (0.8, 0.5, 0.3))])
    by_k = {k: estimate for k in (1, 2, 3) if (estimate := with_fewer_tokens(measured, k)) is not None}
    rows = tables.positions({"draft": by_k, "no counters": {}})
    assert rows["is_estimate"].tolist() == [True, True, False]
    assert rows["length"].tolist() == pytest.approx([1.8, 2.3, 2.6])
    assert rows["conditional"].tolist() == pytest.approx([0.8, 0.5 / 0.8, 0.3 / 0.5])
    drawn = layers(compare.tokens_per_round(rows, STYLES, "light"))
    hollow, full = (layer["mark"]["filled"] for layer in drawn if layer["mark"]["type"] == "point")
    assert (hollow, full) == (False, True)
    layers(compare.position_shares(rows, "conditional", STYLES))


def _measured(arm: str, accepted: int) -> pd.DataFrame:
    acceptance = pooled([Counts(100, 300, accepted, (0.8, 0.5, 0.3))])
    return tables.positions({arm: {k: few for k in (1, 2, 3) if (few := with_fewer_tokens(acceptance, k))}})


def test_figures_beside_marks_close_together_do_not_lie_on_each_other() -> None:
    rows = pd.concat([_measured("a", 160), _measured("b", 161)])
    drawn = layers(compare.tokens_per_round(rows, STYLES, "light"))
    (words,) = (layer for layer in drawn if layer["mark"]["type"] == "text")
    assert words["encoding"]["y"]["field"] == "label"
    shown = compare._with_labels(rows)
    low, high = sorted(shown["label"])
    assert shown["length"].max() - shown["length"].min() < high - low


def pooled_histograms(values_ms: dict[str, np.ndarray]) -> pd.DataFrame:
    """As `place_questions.histograms` gives them, of one latency."""
    rows = [
        {"arm": arm, "latency": "ttft", "bucket": bucket, "count": count}
        for arm, values in values_ms.items()
        for bucket, count in histogram.histogram(values).items()
    ]
    return pd.DataFrame(rows)


def test_curve_and_percentiles_are_those_of_the_pooled_requests() -> None:
    values = np.random.default_rng(7).lognormal(4, 0.6, 5_000)
    rows = pooled_histograms({"draft": values})
    curve = tables.ecdf(rows)
    assert len(curve) <= 202
    assert curve["share"].is_monotonic_increasing
    assert curve["share"].iloc[-1] == 1.0
    for value, share in zip(curve["value_ms"], curve["share"], strict=True):
        assert np.mean(values <= value * 1.006) >= share - 1e-9
    percentiles = tables.percentiles(rows).iloc[0]
    assert percentiles["requests"] == 5_000
    for percent in (50, 95, 99):
        assert percentiles[f"p{percent}"] == pytest.approx(np.percentile(values, percent), rel=0.01)
    drawn = layers(compare.ecdf_panel(curve.assign(latency="ttft"), "Time to first token", STYLES, "light"))
    assert drawn[1]["encoding"]["x"]["title"] == "Time to first token (ms)"


def test_predicted_stands_against_measured_on_axes_of_one_scale() -> None:
    rows = pd.DataFrame(
        {
            "arm": "draft",
            "workload": "code",
            "pattern": "c4",
            "concurrency": 4,
            "run_id": "r",
            "predicted": [1.8],
            "measured": [1.2],
        }
    )
    drawn = layers(deploy.predicted_panel(rows, "Speed-up (×)", STYLES, "light"))
    points = drawn[-1]["encoding"]
    assert points["x"]["scale"] == points["y"]["scale"]
    assert points["x"]["title"] == "Speed-up (×), predicted"


def test_a_cached_figure_gives_each_caller_a_copy_of_its_specification() -> None:
    chart = compare.heat_panel(cells(2.0, 0.5, 1.0, 1.5), ROWS, COLUMNS, 1.0, "light", higher=True)
    figure = Figure("heat", "Speed-up", "", (), (("draft", chart),), pd.DataFrame())
    (first,) = vega_spec.of_panels(figure, "light")
    assert first["title"] == "draft"
    assert first["config"]["background"] == "transparent"
    first.clear()
    (second,) = vega_spec.of_panels(figure, "light")
    assert second["layer"]


def test_speeds_that_hardly_differ_get_an_axis_whose_labels_differ() -> None:
    rows = pd.DataFrame({"arm": ["no draft", "draft"], "concurrency": 1, "user_tok_per_s": [6.5347, 6.5362]})
    drawn = layers(interactivity.panel(rows.assign(value=[5.5, 3.6]), "Output throughput (tok/s)", STYLES))
    low, high = drawn[0]["encoding"]["x"]["scale"]["domain"]
    assert low < 6.5347
    assert high > 6.5362
    assert high - low == pytest.approx(0.02 * 6.5362)
    assert "domain" not in drawn[0]["encoding"]["y"]["scale"]
