from __future__ import annotations

import json
import re
from typing import Any

import altair as alt
import pandas as pd
import pytest
import vl_convert
from altair.utils import sanitize_pandas_dataframe

from lab.metrics.number_format import number
from tests.webapp import frames
from webapp.charts import axes, marks, results, theme, vega_spec
from webapp.charts import panels as figures
from webapp.charts.results import BY_LABEL, MEASURES
from webapp.charts.theme import Mode

OUTPUT = BY_LABEL["Output throughput"]
TTFT = BY_LABEL["Time to first token p50"]
ROWS = pd.DataFrame({"x": [1, 2], "y": [0.5, None], "at": pd.to_datetime(["2026-11-21", "2026-11-22"])})


def styles(mode: Mode = "light") -> tuple[theme.ArmStyle, ...]:
    return figures.styles_of(frames.speedup(), mode)


def encodings(chart: alt.Chart | alt.LayerChart, channel: str) -> list[dict[str, Any]]:
    """The channel of every layer that has it, outer encodings included."""
    spec = chart.to_dict()
    return [layer["encoding"][channel] for layer in spec["layer"] if channel in layer.get("encoding", {})]


def titles(chart: alt.Chart | alt.LayerChart, channel: str) -> set[str]:
    return {encoding["title"] for encoding in encodings(chart, channel) if "title" in encoding}


def test_every_metric_has_its_unit_on_the_axis() -> None:
    for measure in MEASURES:
        _, panel = figures.throughput_figure(frames.speedup(), measure, styles(), "light").panels[0]
        assert titles(panel, "y") == {f"{measure.label} ({measure.unit})"}
        assert titles(panel, "x") == {"Concurrency (requests in flight)"}


def test_throughput_begins_at_zero_and_all_panels_share_one_scale() -> None:
    figure = figures.throughput_figure(frames.speedup(), OUTPUT, styles(), "light")
    domains = [encodings(panel, "y")[0]["scale"]["domain"] for _, panel in figure.panels]
    assert domains[0] == domains[1]
    assert domains[0][0] == 0
    assert domains[0][1] > frames.speedup()["value"].max() * 1.03


def test_the_repeats_of_a_mean_are_dots_and_no_interval() -> None:
    several = figures.throughput_figure(frames.speedup(repeats=3), OUTPUT, styles(), "light")
    single = figures.throughput_figure(frames.speedup(repeats=1), OUTPUT, styles(), "light")
    fields = [{y["field"] for y in encodings(figure.panels[0][1], "y")} for figure in (several, single)]
    assert ("values" in fields[0], "values" in fields[1]) == (True, False)
    assert encodings(several.panels[0][1], "y2") == []
    dots = [rows for rows in several.panels[0][1].to_dict()["datasets"].values() if "values" in rows[0]]
    assert [len(rows) for rows in dots] == [3 * 3 * 3]  # arms, loads, repeats


def test_whiskers_of_a_ratio_are_its_interval_and_inconclusive_ones_are_hollow() -> None:
    several = figures.speedup_figure(frames.speedup(repeats=3), OUTPUT, styles(), "light")
    single = figures.speedup_figure(frames.speedup(repeats=1), OUTPUT, styles(), "light")
    _, panel = several.panels[0]
    assert ("low", "high") in {(layer["y"]["field"], layer["y2"]["field"]) for layer in _layers(panel) if "y2" in layer}
    assert [end for end in encodings(single.panels[0][1], "y2") if end["field"] == "high"] == []
    (fill,) = encodings(panel, "fillOpacity")
    assert fill["condition"] == {"test": "datum.verdict === 'inconclusive'", "value": 0}
    rows = next(rows for rows in panel.to_dict()["datasets"].values() if "figure" in rows[0])
    assert {(row["arm"], row["concurrency"]): row["figure"] for row in rows} == {
        ("draft k=3", 1): "1.48× ▲",
        ("draft k=3", 4): "0.96× ▼",
        ("draft k=3", 16): "0.90× ▼",
        ("n-gram", 1): "1.20× ▲",
        ("n-gram", 4): "1.05× ▲",
        ("n-gram", 16): "1.02× ?",
    }
    assert several.note == "bars: 95 % intervals; hollow: inconclusive; logarithmic"
    assert len({row["dodge_px"] for row in rows}) == 2  # the arms' whiskers stand side by side


def _layers(chart: alt.Chart | alt.LayerChart) -> list[dict[str, Any]]:
    layers: list[dict[str, Any]] = [layer.get("encoding", {}) for layer in chart.to_dict()["layer"]]
    return layers


def test_speed_up_is_logarithmic_with_a_rule_and_label_at_one() -> None:
    _, panel = figures.speedup_figure(frames.speedup(), OUTPUT, styles(), "light").panels[0]
    scales = [y["scale"] for y in encodings(panel, "y") if "scale" in y]
    assert {scale["type"] for scale in scales} == {"log"}
    assert all(scale["domain"][0] < 1 < scale["domain"][1] for scale in scales)
    assert all(1 in y["axis"]["values"] for y in encodings(panel, "y") if "axis" in y)
    assert "one" in {y["field"] for y in encodings(panel, "y")}


def test_the_losing_side_is_below_one_for_throughput_above_for_latency() -> None:
    for measure, edge in ((OUTPUT, "low"), (TTFT, "high")):
        _, panel = figures.speedup_figure(frames.speedup(), measure, styles(), "light").panels[0]
        assert encodings(panel, "y2")[0]["field"] == edge


@pytest.mark.parametrize(
    "ratios",
    [(1.0, 1.0, 1.0), (3.0, 2.0, 1.5), (0.4, 0.3, 0.2), (20.0, 1.0, 0.05), (1.001, 1.0, 0.999), (1.04, 1.0, 0.99)],
)
def test_labels_of_the_ratio_axis_never_crowd_each_other(ratios: tuple[float, ...]) -> None:
    arm = frames.ArmRatios("arm", "ngram", ratios)
    domain = axes.ratio_domain(frames.speedup((arm,)))
    ticks = axes.ratio_ticks(domain)
    assert 1 in ticks
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 10
    if ratios == (1.04, 1.0, 0.99):  # a few percent have labels on both sides
        assert ticks[0] < 1 < ticks[-1]
    assert all(domain[0] <= tick <= domain[1] for tick in ticks)


def test_a_load_is_labelled_at_its_highest_and_lowest_point_only() -> None:
    third = frames.ArmRatios("third", "ngram", (1.3, 1.3, 1.3))
    rows = results.with_label_sides(
        frames.speedup((frames.DRAFT, frames.NGRAM, third), categories=("code",)), (0.1, 10.0)
    )
    first = rows[rows["concurrency"] == 1].set_index("arm")["side"]
    assert dict(first) == {"draft k=3": "above", "n-gram": "below", "third": "none"}


def test_an_arm_keeps_its_colour_and_the_baseline_is_grey() -> None:
    for mode in theme.INKS:
        everywhere = [
            figures.throughput_figure(frames.speedup(), OUTPUT, styles(mode), mode).styles,
            figures.speedup_figure(frames.speedup(), OUTPUT, styles(mode), mode).styles,
            figures.acceptance_figure(frames.acceptance(), styles(mode)).styles,
        ]
        looks = {style for drawn in everywhere for style in drawn}
        assert len(looks) == len(frames.ARMS)
        assert {style.colour for style in looks if style.arm == "no draft"} == {theme.INKS[mode].baseline}


def test_a_legend_lists_only_what_is_drawn() -> None:
    drawn = figures.speedup_figure(frames.speedup(), OUTPUT, styles(), "light").styles
    assert [style.arm for style in drawn] == ["draft k=3", "n-gram"]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_method_keeps_its_colour_beside_other_arms(mode: theme.Mode) -> None:
    how = {
        "plain": ("none", None),
        "draft": ("draft_model", 3),
        "head": ("eagle3", 3),
        "again": ("none", None),
        "other head": ("eagle3", 3),
        "long head": ("eagle3", 8),
        "unknown": ("someone's", 2),
    }
    every = {style.arm: style for style in theme.arm_styles(how, "plain", mode, how)}
    alone = {style.arm: style for style in theme.arm_styles(["head"], None, mode, how)}
    assert every["head"].colour == alone["head"].colour == theme.INKS[mode].arms[1]
    assert every["plain"].colour == every["again"].colour == theme.INKS[mode].baseline
    assert len({style.colour for style in every.values()}) == len(how) - 1
    assert len({(style.colour, style.shape) for style in every.values()}) == len(how)


def test_ten_arms_are_told_apart_by_colour_and_mark_together() -> None:
    drawn = theme.arm_styles([f"arm {place}" for place in range(10)], "arm 0", "light")
    assert len({(style.colour, style.shape) for style in drawn}) == 10


@pytest.mark.parametrize(
    ("loads", "column", "order"),
    [
        (((4, 6), (4, 16), (16, 48)), "pattern", ("c4-n16", "c4-n6", "c16-n48")),
        (((16, 48), (4, 16), (1, 6)), "load", ("1", "4", "16")),
    ],
)
def test_loads_stand_by_size_and_have_names_where_concurrencies_repeat(
    loads: tuple[tuple[int, int], ...], column: str, order: tuple[str, ...]
) -> None:
    axis = axes.load_axis(frames.speedup(loads=loads))
    assert (axis.column, axis.order) == (column, order)


def test_each_category_has_a_panel_that_names_its_dataset_among_several() -> None:
    rows = frames.speedup()
    assert [title for title, _ in axes.facets(rows)] == ["code", "repeat"]
    both = pd.concat([rows, rows.assign(dataset="own.jsonl", category="all")])
    assert [title for title, _ in axes.facets(both)][-1] == "own.jsonl · all categories"
    longer = pd.concat([rows, rows.assign(requested_output_tokens=256)])
    assert [title for title, _ in axes.facets(longer)][-1] == "repeat · 256 output tokens"


def test_acceptance_of_several_loads_is_weighted_by_drafts() -> None:
    pooled = results.pooled_over_loads(frames.acceptance())
    first = pooled[(pooled["arm"] == "draft k=3") & (pooled["position"] == 1)]
    assert list(first["acceptance"]) == pytest.approx([(0.8 * 100 + 0.6 * 300) / 400])
    assert list(first["num_drafts"]) == [400]


def test_acceptance_is_in_percent_from_nought_to_a_hundred() -> None:
    _, panel = figures.acceptance_figure(frames.acceptance(), styles()).panels[0]
    (y, *_) = [encoding for encoding in encodings(panel, "y") if "axis" in encoding]
    assert y["scale"]["domain"] == [0, 1]
    assert y["axis"]["format"] == ".0%"
    assert y["title"].endswith("(%)")
    assert titles(panel, "x") == {"Position in the draft"}
    svg = vl_convert.vegalite_to_svg(json.dumps(theme.themed(panel, "light").to_dict()))
    assert ">80 %<" in svg  # as in the text of the pages


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_an_exported_chart_has_the_look_of_the_page(mode: Mode) -> None:
    _, panel = figures.speedup_figure(frames.speedup(), OUTPUT, styles(mode), mode).panels[0]
    chart = theme.themed(panel, mode, ground=True)
    assert chart.to_dict()["config"]["background"] == theme.INKS[mode].ground
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert theme.INKS[mode].ground in svg
    assert "Speed-up (×)" in svg
    assert theme.themed(panel, mode).to_dict()["config"]["background"] == "transparent"


def test_a_specification_has_the_rows_and_the_rest_that_altair_writes() -> None:
    line = alt.Chart(ROWS).mark_line().encode(x="x:Q", y="y:Q")
    mean = alt.Chart(ROWS[["x"]]).mark_rule().encode(x="mean(x):Q")
    spec = vega_spec.plain(line + mean)
    rows = [sanitize_pandas_dataframe(frame).to_dict(orient="records") for frame in (ROWS, ROWS[["x"]])]
    assert [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]] == rows
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "rule"]
    alt.Chart.from_dict(spec, validate=True)


def test_tooltips_write_numbers_as_the_pages_do() -> None:
    values = [0.0, 0.00021, 0.85, 1.5, 44.0, 999.0, 1000.0, 1234.6, 123456.7, -2.5, None]
    chart = alt.Chart(pd.DataFrame({"p50": values})).mark_text()
    chart = marks.with_written(chart, "p50").encode(text=marks.number_tooltip("p50", "p50, ms").shorthand)
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    shown = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    assert shown == [number(value).replace("-", "\N{MINUS SIGN}") for value in values]


def test_what_is_unknown_is_null_in_every_column() -> None:
    """A browser reads no JSON with NaN: a shared page of a study without verdicts would show none of its charts."""
    texts = pd.DataFrame({"verdict": ["faster", float("nan")], "several": [[1, 2], None]})
    rows = texts.assign(x=[1.0, float("nan")], nothing=pd.Series([None] * 2, dtype=object))
    (records,) = vega_spec.plain(alt.Chart(rows).mark_point().encode(x="x:Q"))["datasets"].values()
    known = {"x": 1.0, "verdict": "faster", "several": [1, 2], "nothing": None}
    unknown = {"x": None, "verdict": None, "several": None, "nothing": None}
    assert records == [known, unknown]
