"""What the Explore page draws, from rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.histogram import histogram
from warehouse.queries.results import COMPARABLE
from warehouse.queries.slices import NUMBERS
from webapp.charts.explore import axes, runs
from webapp.charts.explore.axes import Axis, Order, natural
from webapp.charts.explore.runs import Scene
from webapp.charts.theme import INKS
from webapp.shared import url_params

CONCURRENCY = next(axis for axis in axes.DIMENSIONS if axis.column == "concurrency")
ARM = next(axis for axis in axes.DIMENSIONS if axis.column == "arm")
OUTPUT = axes.NUMBERS[0]
ORDER = Order(("no draft", "EAGLE-3", "n-gram"), "no draft")


def rows(**changes: Any) -> pd.DataFrame:
    """Two arms at two loads, two repeats each; one of them published by somebody."""
    columns = [
        {
            **dict.fromkeys(("dataset", "category", "load", "k", "engine", "hardware", "source"), "x"),
            "arm": arm,
            "origin": "published" if arm == "theirs" else "measured",
            "concurrency": concurrency,
            "repeat": repeat,
            "run_id": f"{arm}-{concurrency}-{repeat}",
            "output_tok_per_s": 10.0 * int(concurrency) + repeat,
            "acceptance_rate": 0.5,
        }
        for arm in ("n-gram", "no draft", "theirs")
        for concurrency in ("16", "4")
        for repeat in (0, 1)
    ]
    return pd.DataFrame(columns).assign(**changes)


def drawn(x: Axis = CONCURRENCY, y: Axis = OUTPUT) -> tuple[pd.DataFrame, Scene]:
    table = axes.with_series(runs.numbers(rows(), x, y), ARM)
    looks = axes.styles(table, ARM, ORDER, "light")
    return table, Scene(x, y, looks, "light", 280, runs.order_of(table, x))


def test_every_number_of_a_run_has_a_label_and_a_unit() -> None:
    columns = [axis.column for axis in axes.NUMBERS]
    only_on_cost = {
        *("cost_per_million_tokens", "cost_per_request"),
        *("cost_per_million_output_tokens_within_slo", "cost_per_million_answer_tokens"),
    }
    assert set(columns) == {*NUMBERS} - only_on_cost
    assert set(COMPARABLE) < set(columns)
    assert len({axis.label for axis in axes.NUMBERS}) == len(columns)
    assert all(axis.unit for axis in axes.NUMBERS)
    assert not {axis.unit for axis in axes.NUMBERS} & {"fraction", "bytes", "percent"}


def test_numbers_stand_by_size_and_the_unknown_last() -> None:
    values = ["unknown", "16", "2 cores", "4", "none", "arm"]
    assert sorted(values, key=natural) == ["4", "16", "2 cores", "arm", "none", "unknown"]


def test_published_runs_are_hollow_in_the_colour_of_their_arm() -> None:
    table = axes.with_series(rows(arm=["n-gram"] * 8 + ["n-gram"] * 4), ARM)
    ours, theirs = axes.styles(table, ARM, ORDER, "light")
    assert (ours.arm, theirs.arm) == ("n-gram", "n-gram · published")
    assert ours.colour == theirs.colour
    assert (ours.hollow, theirs.hollow) == (False, True)
    assert ours.letter != theirs.letter


def test_an_arm_has_the_colour_of_its_study_whatever_else_is_drawn() -> None:
    few = rows().query("arm == 'n-gram'")
    for table in (rows(), few):
        looks = axes.styles(axes.with_series(table, ARM), ARM, ORDER, "light")
        (style,) = [look for look in looks if look.arm == "n-gram"]
        assert (style.colour, style.shape) == (INKS["light"].arms[1], "triangle-up")
    baseline = axes.styles(axes.with_series(rows(), ARM), ARM, ORDER, "light")[0]
    assert (baseline.arm, baseline.colour) == ("no draft", INKS["light"].baseline)


def test_a_line_joins_means_and_each_run_is_a_clickable_point() -> None:
    table, scene = drawn()
    means = runs.means(table).set_index(["series", "x"])["y"]
    assert means["n-gram", "16"] == 160.5
    spec = runs.line(table, scene).to_dict()
    assert spec["params"][0]["name"] == runs.CHOSEN
    assert spec["params"][0]["select"]["fields"] == ["run_id"]
    points = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert len(spec["datasets"][points["data"]["name"]]) == len(table)
    assert points["encoding"]["x"]["sort"] == ["4", "16"]
    assert points["encoding"]["y"]["title"] == "Output throughput (tok/s)"


@pytest.mark.parametrize(("low", "scale"), [(0.5, "log"), (0.0, None)])
def test_a_speed_up_is_logarithmic_as_elsewhere_unless_its_axis_has_zero(low: float, scale: str | None) -> None:
    table = axes.with_series(runs.numbers(rows(speedup=1.5), CONCURRENCY, axes.SPEEDUP), ARM)
    scene = replace(drawn()[1], y=axes.SPEEDUP, y_domain=(low, 2.0))
    spec = runs.line(table, scene).to_dict()
    points = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert points["encoding"]["y"]["scale"].get("type") == scale


def test_a_mean_has_an_interval_and_a_single_run_has_none() -> None:
    table, _ = drawn()
    means = runs.means(table)
    (mean,) = means[(means["series"] == "n-gram") & (means["x"] == "16")][["y", "low", "high"]].to_numpy()
    assert mean == pytest.approx([160.5, 160.5 - 6.353, 160.5 + 6.353], abs=1e-3)
    assert runs.means(table[table["repeat"] == 0])[["low", "high"]].isna().all(axis=None)


def test_a_mean_of_one_judged_cell_has_the_interval_of_its_verdict() -> None:
    table, scene = drawn()
    judged: dict[str, Any] = {
        "verdict": "▲ faster 1.50× [1.40, 1.60]",
        "ratio": 1.5,
        "ratio_low": 1.4,
        "ratio_high": 1.6,
    }
    of_one = runs.means(table.assign(cell=table["series"] + table["x"], **judged))
    assert of_one[["y", "low", "high"]].drop_duplicates().to_numpy().tolist() == [[1.5, 1.4, 1.6]]
    of_several = runs.means(table.assign(cell=table["run_id"], **judged))
    assert set(of_several["verdict"]) == {""}
    assert of_several["y"].tolist() == runs.means(table)["y"].tolist()
    points = runs.line(table.assign(cell="", **judged), scene).to_dict()["layer"][-1]
    assert {"field": "verdict", "title": "Against the baseline", "type": "nominal"} in points["encoding"]["tooltip"]


def test_series_at_one_place_stand_side_by_side_with_their_whiskers() -> None:
    table, scene = drawn()
    spec = runs.line(table, scene).to_dict()
    for layer in spec["layer"]:
        assert layer["mark"]["xOffset"] == {"expr": "datum.dodge_px || 0"}
    (points,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    placed = {row["series"]: row["dodge_px"] for row in spec["datasets"][points["data"]["name"]]}
    assert len(set(placed.values())) == 3
    assert sum(placed.values()) == pytest.approx(0)


def test_an_axis_holds_whole_whiskers_unless_they_are_far_too_long() -> None:
    table, _ = drawn()
    lowest, highest = runs.means(table)["low"].min(), runs.means(table)["high"].max()
    (low, high), are_cut = runs.with_whiskers(runs.span(table["y"], from_zero=False), [table], from_zero=False)
    assert (low < lowest, high > highest, are_cut) == (True, True, False)
    wide = table.assign(y=table["y"] + 400 * (table["repeat"] == 1))
    (low, high), are_cut = runs.with_whiskers((0.0, 600.0), [wide], from_zero=True)
    assert (low, high, are_cut) == (0.0, 2400.0, True)


def test_more_runs_than_can_be_drawn_are_means_with_their_range() -> None:
    table, scene = drawn()
    many = pd.concat([table] * 200, ignore_index=True)
    spec = runs.line(many, scene).to_dict()
    assert "params" not in spec
    assert max(map(len, spec["datasets"].values())) == 6
    assert {layer["mark"]["type"] for layer in spec["layer"]} == {"line", "rule", "point"}


def test_what_others_found_is_a_band_behind_ones_own_speedups() -> None:
    speedup = next(axis for axis in axes.NUMBERS if axis.column == "speedup")
    table, scene = drawn()
    band, rule, *_ = runs.line(table, replace(scene, y=speedup, band=(0.8, 1.3))).to_dict()["layer"]
    assert (band["mark"]["type"], rule["mark"]["type"]) == ("rect", "rule")
    assert [band["encoding"][end]["field"] for end in ("y", "y2")] == ["low", "high"]


def test_runs_without_one_of_the_numbers_are_not_drawn_as_zero() -> None:
    table = runs.numbers(rows(output_tok_per_s=[np.nan] * 6 + [1.0] * 6), CONCURRENCY, OUTPUT)
    assert len(table) == 6
    assert set(table["y"]) == {1.0}


def test_shares_are_drawn_as_per_cent() -> None:
    rate = next(axis for axis in axes.NUMBERS if axis.column == "acceptance_rate")
    assert set(runs.numbers(rows(), rate, OUTPUT)["x"]) == {50.0}
    assert rate.title == "Acceptance rate (%)"


@pytest.mark.parametrize("chart", [runs.line, runs.bar, runs.scatter])
def test_every_axis_has_its_unit(chart: Any) -> None:
    spec = chart(*drawn()).to_dict()
    encodings = [layer["encoding"] for layer in spec["layer"]]
    titles = {encoding[channel].get("title") for encoding in encodings for channel in ("x", "y") if channel in encoding}
    assert {"Concurrency (requests in flight)", "Output throughput (tok/s)"} <= titles


def test_a_frontier_is_steps_because_nobody_measured_between_two_runs() -> None:
    table, scene = drawn(OUTPUT, OUTPUT)
    spec = runs.frontier(table.assign(best=True), scene, higher=True).to_dict()
    assert spec["layer"][0]["mark"]["interpolate"] == "step-before"
    lower = runs.frontier(table.assign(best=True), scene, higher=False).to_dict()
    assert lower["layer"][0]["mark"]["interpolate"] == "step-after"


def pooled(samples: dict[str, np.ndarray[Any, Any]]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"series": name, "bucket": list(counts), "count": list(counts.values())})
        for name, values in samples.items()
        for counts in [histogram(values)]
    ]
    return pd.concat(parts, ignore_index=True)


def test_ecdf_and_bands_are_within_one_per_cent_of_the_exact_percentiles() -> None:
    rng = np.random.default_rng(0)
    samples = {"a": rng.lognormal(3, 1, 5_000), "b": rng.lognormal(4, 0.3, 300)}
    percentiles = runs.percentiles(pooled(samples), ["series"]).set_index("series")
    steps = runs.shares(pooled(samples))
    for name, values in samples.items():
        for q in runs.PERCENTILES:
            assert percentiles.loc[name, f"p{q}"] == pytest.approx(np.percentile(values, q), rel=0.01)
        own = steps[steps["series"] == name]
        assert own["share"].iloc[-1] == pytest.approx(1)
        for ms, share in zip(own["ms"], own["share"], strict=True):
            assert (values <= ms * 0.995).mean() <= share <= (values <= ms * 1.0051).mean()


def test_values_of_zero_need_no_logarithm() -> None:
    _, scene = drawn()
    for values, kind in ((np.array([0.0, 5.0]), "linear"), (np.array([1.0, 5.0]), "log")):
        chart = runs.ecdf(runs.shares(pooled({"n-gram": values})), scene)
        assert chart.to_dict()["layer"][1]["encoding"]["x"]["scale"]["type"] == kind


def test_bands_of_a_single_place_are_drawn_all_the_same() -> None:
    _, scene = drawn()
    groups = runs.percentiles(pooled({"n-gram": np.arange(1.0, 100.0)}), ["series"]).assign(x="4")
    chart = runs.bands(groups, scene.styles[0], scene)
    assert isinstance(chart, alt.LayerChart)
    assert [layer["mark"]["type"] for layer in chart.to_dict()["layer"]].count("rule") == 3


def test_no_two_parameters_of_a_link_share_a_name() -> None:
    keys = [param.key for param in url_params.ALL]
    assert len(set(keys)) == len(keys)


_NUMBER = st.integers(0, 5).map(float) | st.just(float("nan"))


@given(points=st.lists(st.tuples(_NUMBER, _NUMBER), max_size=12), higher_x=st.booleans(), higher_y=st.booleans())
def test_the_frontier_has_the_points_that_no_other_point_beats(
    points: list[tuple[float, float]], *, higher_x: bool, higher_y: bool
) -> None:
    x, y = (np.array([point[place] for point in points]) for place in (0, 1))
    is_best = runs.on_frontier(x, y, higher_x=higher_x, higher_y=higher_y)
    signs = (1 if higher_x else -1), (1 if higher_y else -1)
    good = [(signs[0] * point_x, signs[1] * point_y) for point_x, point_y in points]
    complete = [point for point in good if not np.isnan(point).any()]
    wanted = [
        not np.isnan(point).any()
        and not any(point_y != point and point_y[0] >= point[0] and point_y[1] >= point[1] for point_y in complete)
        for point in good
    ]
    assert is_best.tolist() == wanted
