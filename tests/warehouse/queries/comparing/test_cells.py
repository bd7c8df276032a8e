"""Each arm in each cell: its values, and the ratio of its comparison."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from host.settings import Settings
from lab.errors import QueryError
from lab.study import Workload
from tests.warehouse.runs import ingested, write_at_rate
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.ratio_tables import cell_values, with_ratios
from warehouse.queries.results import COMPARABLE


def cells(settings: Settings, metric: str = "output_tok_per_s") -> pd.DataFrame:
    with ingested(settings) as con:
        values = cell_values(con, "job-1", metric)
        try:
            return with_ratios(values, compare_study(con, "job-1", metric))
        except QueryError:  # no baseline
            return with_ratios(values, None)


def test_the_ratio_is_the_geometric_mean_of_the_repeats_ratios(settings: Settings) -> None:
    for arm, rates in (("base", (40, 50)), ("draft", (60, 50))):
        for repeat, rate in enumerate(rates):
            write_at_rate(settings, arm, repeat, rate)
    base, draft = cells(settings).to_dict("records")
    assert (base["arm"], base["is_baseline"], base["value"]) == ("no draft", True, 45.0)
    assert math.isnan(base["ratio"])
    assert (draft["arm"], draft["method"], draft["num_speculative_tokens"]) == ("draft", "draft_model", 3)
    assert (draft["value"], list(draft["values"]), draft["repeats"], draft["concurrency"]) == (55.0, [60.0, 50.0], 2, 1)
    assert draft["ratio"] == pytest.approx(math.sqrt(1.5 * 1.0))
    assert draft["low"] < draft["ratio"] < draft["high"]
    assert (draft["verdict"], draft["basis"]) == ("inconclusive", "2 repeats")


def test_without_a_baseline_there_are_values_and_no_ratio(settings: Settings) -> None:
    write_at_rate(settings, "draft", 0, 60)
    (row,) = cells(settings).to_dict("records")
    assert (row["value"], row["repeats"]) == (60.0, 1)
    assert math.isnan(row["ratio"])


def test_of_two_attempts_at_a_cell_the_later_counts(settings: Settings) -> None:
    write_at_rate(settings, "draft", 0, 10, run_id="a", cell_key="k", attempt=0)
    write_at_rate(settings, "draft", 0, 60, run_id="b", cell_key="k", attempt=1)
    assert cells(settings)["value"].tolist() == [60.0]


def test_workloads_of_other_input_lengths_are_compared_apart(settings: Settings) -> None:
    for tokens, rates in ((64, (10, 30)), (1024, (10, 5))):
        workload = Workload(dataset="random", input_tokens=tokens, output_tokens=16)
        for arm, rate in zip(("base", "draft"), rates, strict=True):
            write_at_rate(settings, arm, 0, rate, run_id=f"{arm}-{tokens}", workload=workload)
    by_cell = cells(settings)
    drafted = by_cell[by_cell["arm"] == "draft"]
    assert drafted[["input_tokens", "ratio"]].to_numpy().tolist() == [
        [64, pytest.approx(3.0)],
        [1024, pytest.approx(0.5)],
    ]


def test_every_number_of_a_run_has_values_and_nothing_else(settings: Settings) -> None:
    write_at_rate(settings, "base", 0, 40)
    write_at_rate(settings, "draft", 0, 60)
    with ingested(settings) as con:
        assert {len(cell_values(con, "job-1", metric)) for metric in COMPARABLE} == {2}
        wrong: list[Any] = ["nonsense", "acceptance_per_position", 'ttft_p50_ms"; drop table runs']
        for metric in wrong:
            with pytest.raises(QueryError, match="is not a comparable metric: use one of requests_completed"):
                cell_values(con, "job-1", metric)
