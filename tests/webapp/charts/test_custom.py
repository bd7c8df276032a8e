"""The chart that fits the columns of any table."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pandas as pd
import pytest

from webapp.charts import custom
from webapp.charts.custom import ChartSpec
from webapp.charts.custom_columns import interval_of, may_be_added, with_floats
from webapp.charts.theme import ArmStyle, Mode

CELLS = pd.DataFrame(list(product(["draft k=3", "plain"], [1, 8])), columns=["arm", "concurrency"])
P95 = CELLS.assign(p95_ttft_ms=[193.0, 1517.0, 200.0, 1600.0])


@pytest.mark.parametrize(
    ("frame", "spec"),
    [
        (P95, ChartSpec("line", "concurrency", "p95_ttft_ms", "arm")),
        (P95.assign(runs=3), ChartSpec("line", "concurrency", "p95_ttft_ms", "arm")),
        (CELLS.assign(runs=3), ChartSpec("line", "concurrency", "runs", "arm")),
        (P95[P95["concurrency"] == 8], ChartSpec("bar", "arm", "p95_ttft_ms")),
        (pd.concat([P95, P95]), ChartSpec("point", "concurrency", "p95_ttft_ms", "arm")),
        (P95.assign(low=1.0, high=9e3), ChartSpec("line", "concurrency", "p95_ttft_ms", "arm")),
        (pd.DataFrame({"low": [1.0], "ratio": [1.5], "high": [2.0]}), ChartSpec("point", "low", "ratio")),
        (pd.DataFrame({"arm": ["a", "b"], "method": ["c", "d"]}), ChartSpec("point", "arm", "method")),
        (
            pd.DataFrame({"started_at": pd.to_datetime(["2026-01-01", "2026-01-02"]), "e2e_ms": [1.0, 2.0]}),
            ChartSpec("line", "started_at", "e2e_ms"),
        ),
        (
            with_floats(pd.DataFrame({"method": ["a", "b"], "sum(num_drafts)": [Decimal(1), Decimal(2)]})),
            ChartSpec("bar", "method", "sum(num_drafts)"),
        ),
    ],
)
def test_a_measure_is_drawn_over_an_ordered_column_coloured_by_category(frame: pd.DataFrame, spec: ChartSpec) -> None:
    assert custom.automatic(frame) == spec
    for _, chart in custom.panels(frame, spec, "light"):
        chart.to_dict()


@pytest.mark.parametrize(
    ("names", "is_sum"),
    [
        (("runs", "count_star()", "count(x)", "sum(num_drafts)", "num_drafts", "requests_failed"), True),
        (("ttft_p95_ms", "p95_ttft_ms", "output_tok_per_s", "total_tok_per_s", "acceptance_rate", "speedup"), False),
        (("concurrency", "num_speculative_tokens", "avg(num_drafts)", "max_runs", "sum(ttft_p95_ms)"), False),
        (("(sum(a) / sum(b))",), False),
    ],
)
def test_counts_and_sums_may_be_added_and_nothing_else(names: tuple[str, ...], *, is_sum: bool) -> None:
    assert [may_be_added(name) for name in names] == [is_sum] * len(names)


def test_bars_stand_beside_each_other_unless_their_values_may_be_added() -> None:
    (_, apart), (_, stacked) = (
        custom.panels(CELLS.assign(**{y: 1.0}), ChartSpec("bar", "concurrency", y, "arm"), "light")[0]
        for y in ("p95_ttft_ms", "runs")
    )
    encoding = apart.to_dict()["encoding"]
    assert (encoding["y"]["stack"], encoding["x"]["type"], encoding["xOffset"]["field"]) == (None, "ordinal", "c2")
    encoding = stacked.to_dict()["encoding"]
    assert encoding["y"]["stack"] == "zero"
    assert "xOffset" not in encoding


def test_an_interval_is_drawn_where_it_contains_the_measure() -> None:
    frame = CELLS.assign(ratio=1.5, ratio_low=1.2, ratio_high=1.8, other=3.0, low=1.0, high=2.0)
    assert interval_of(frame, "ratio") == ("ratio_low", "ratio_high")
    assert interval_of(frame.drop(columns="ratio_low"), "ratio") == ("low", "high")
    assert interval_of(frame, "other") is None
    ((_, chart),) = custom.panels(frame, ChartSpec("line", "concurrency", "ratio", "arm"), "light")
    rule = chart.to_dict()["layer"][1]
    assert (rule["mark"]["type"], rule["encoding"]["y"]["field"], rule["encoding"]["y2"]["field"]) == (
        ("rule", "c3", "c4")
    )


def test_a_further_column_divides_rows_into_panels_with_one_y_axis() -> None:
    frame = pd.concat([P95.assign(category="chat"), P95.assign(category="code", p95_ttft_ms=5000.0)])
    spec = custom.automatic(frame)
    assert spec == ChartSpec("line", "concurrency", "p95_ttft_ms", "arm")
    drawn = custom.panels(frame, spec, "light")
    assert [title for title, _ in drawn] == ["chat", "code"]
    assert {tuple(chart.to_dict()["encoding"]["y"]["scale"]["domain"]) for _, chart in drawn} == {(0, 5000)}
    assert custom.shared_positions(frame, spec) == 0
    assert custom.shared_positions(frame.drop(columns="category"), spec) == 8


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_no_two_values_share_a_colour(mode: Mode) -> None:
    names = [f"arm {number}" for number in range(60)]
    same = [ArmStyle(name, "#0072b2", "circle", "●") for name in names[:9]]
    for styles in ((), same):
        assert len(set(custom.distinct_colours(names, mode, styles))) == 60
    frame = pd.DataFrame({"arm": [*names[:8], None], "concurrency": 1, "e2e_ms": 2.0})
    ((_, chart),) = custom.panels(frame, ChartSpec("bar", "concurrency", "e2e_ms", "arm"), mode)
    scale = chart.to_dict()["encoding"]["color"]["scale"]
    assert scale["domain"] == [*names[:8], "null"]
    assert len(set(scale["range"])) == 9
