"""Capacities in the warehouse: found from bundles, compared between arms, priced, and in no other figure."""

from __future__ import annotations

import duckdb
import pytest

from host.settings import Settings
from lab.errors import QueryError
from tests.warehouse.asking import ask
from tests.warehouse.trials import CARRIED, write_search
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.capacities import study_capacities
from warehouse.queries.comparing.carried_loads import carried_loads
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import study_costs


@pytest.fixture(scope="module")
def searched(shared: Settings) -> Settings:
    write_search(shared.bundles)
    ingest_all(shared)
    return shared


def test_each_arm_has_its_capacity_in_each_repeat_and_over_all(searched: Settings) -> None:
    rows = ask(searched, "SELECT arm, repeat, capacity, low, high, trials FROM capacities ORDER BY ALL")
    assert len(rows) == 2 * (3 + 1)
    for arm, repeat, capacity, low, high, trials in rows:
        assert low <= CARRIED[arm] <= high
        assert capacity == pytest.approx(CARRIED[arm], abs=1)
        assert trials == (36 if repeat is None else 12)


def test_the_ratio_of_capacities_has_an_interval_and_a_verdict(searched: Settings) -> None:
    with open_warehouse(searched.warehouse_file) as con:
        (pair,) = compare_study(con, "job-search", "capacity").pairs
        _, draft = carried_loads(con, "job-search", price_usd_per_hour=3.6)
    ratio = pair.comparison.ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(2, rel=0.15)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 0.98 * ratio.value < ratio.value < 0.98 * ratio.high
    assert pair.comparison.blocks == 3
    assert draft.pair is not None
    assert draft.pair.verdict == pair.verdict
    assert draft.sentence("no draft").startswith(f"{draft.arm.arm} carries {ratio.value:.2f}× [{ratio.low:.2f}, ")


def test_two_repeats_that_end_at_8_and_at_9_at_once_do_not_tell_arms_apart(settings: Settings) -> None:
    """Identical arms that carry about 9.0 end so in one study of eight."""
    write_search(settings.bundles, repeats=2)
    ingest_all(settings)
    with duckdb.connect(settings.warehouse_file) as warehouse:
        found = "if(is_baseline, 8, 9)"
        warehouse.execute(f"UPDATE capacities SET capacity = {found}, low = {found}, high = {found}")
    with open_warehouse(settings.warehouse_file) as con:
        (pair,) = compare_study(con, "job-search", "capacity").pairs
    ratio = pair.comparison.ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.low < 1 < ratio.value == 9 / 8
    assert pair.verdict.word == "inconclusive"


def test_a_repeat_measured_on_two_hosts_is_no_pair_of_one(settings: Settings) -> None:
    write_search(settings.bundles, moves_in_repeat=1)
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        (pair,) = compare_study(con, "job-search", "capacity").pairs
    assert pair.comparison.blocks == 2


def test_the_cost_at_capacity_counts_tokens_within_the_slo(searched: Settings) -> None:
    with open_warehouse(searched.warehouse_file) as con:
        plain, draft = study_capacities(con, "job-search", price_usd_per_hour=3.6)
        ((metric_pair),) = compare_study(
            con, "job-search", "cost_per_million_output_tokens_at_capacity", price_usd_per_hour=3.6
        ).pairs
    assert (plain.is_baseline, draft.is_baseline) == (True, False)
    # eight at once, four tokens each in half a second: 64 tokens a second for 0.001 a second
    assert plain.cost == pytest.approx(0.001 / 64 * 1e6, rel=0.15)
    assert draft.cost == pytest.approx(0.001 / 128 * 1e6, rel=0.15)
    assert metric_pair.comparison.ratio is not None
    assert metric_pair.comparison.ratio.value == pytest.approx(0.5, rel=0.15)


def test_trials_are_in_no_ordinary_figure(searched: Settings) -> None:
    assert ask(searched, "SELECT count(*) FROM valid_latest_runs WHERE job_id = 'job-search'") == [(0,)]
    assert ask(searched, "SELECT count(*) FROM results WHERE search = 'most at once'") == [(72,)]
    with open_warehouse(searched.warehouse_file) as con:
        assert study_costs(con, "job-search", 3.6) == []
        with pytest.raises(QueryError, match="the baseline has no valid run"):
            compare_study(con, "job-search", "throughput")


def test_a_search_for_a_concurrency_gives_no_request_rate(searched: Settings) -> None:
    none = pytest.raises(QueryError, match="no search has found capacity_request_per_s")
    with open_warehouse(searched.warehouse_file) as con, none:
        compare_study(con, "job-search", "capacity_request_per_s")
