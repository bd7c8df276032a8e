from __future__ import annotations

from dataclasses import replace

import pytest

from lab.study import Slo
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import ArmCost, cheapest, meets_slo, slo_of, study_costs
from warehouse.queries.paired_runs import CellKey
from warehouse.settings import Settings

COST = ArmCost(
    cell=CellKey("w", "c1", 1),
    arm="a",
    is_baseline=False,
    hardware="H200",
    price_per_hour=1.0,
    currency="USD",
    price_source="list",
    per_million_output_tokens=3.0,
    per_million_tokens=1.0,
    per_request=0.1,
    with_start_up=None,
    kwh_per_million_output_tokens=None,
    electricity_per_million_output_tokens=None,
    within_slo=1.0,
)


def test_the_share_within_the_slo_counts_requests_and_the_dearer_arm_that_keeps_it_is_chosen(
    settings: Settings,
) -> None:
    """The drafted arm is the cheaper one, and each of its requests breaks a bound."""
    slo = Slo(e2e_ms=1e9, ttft_ms=1e9)
    write(settings, RunSpec("plain", 0), slo=slo)
    write(settings, RunSpec("drafted", 0, 1.0, ROUNDS), slo=Slo(e2e_ms=1e-3, ttft_ms=1e9))
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        found = {each.arm: each for each in study_costs(con, "small", 3.6)}
        given = slo_of(con, "small")
    assert given is not None
    assert found["plain"].within_slo == pytest.approx(1.0)
    assert found["drafted"].within_slo == 0.0
    (best,) = cheapest(list(found.values())).values()
    assert best is not None
    assert best.arm == "plain"
    assert (best.per_million_output_tokens or 0) > (found["drafted"].per_million_output_tokens or 0)


def test_without_an_slo_nothing_keeps_one(settings: Settings) -> None:
    write(settings, RunSpec("plain", 0), slo=Slo())
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        (found,) = study_costs(con, "small", 3.6)
        assert slo_of(con, "small") is None
    assert found.within_slo is None
    assert meets_slo(found) is None
    assert cheapest([found]) == {found.cell.workload: None}


def test_the_cheapest_of_several_loads_keeps_as_large_a_share_as_is_asked_for() -> None:
    slack = replace(COST, cell=CellKey("w", "c8", 8), per_million_output_tokens=2.0, within_slo=0.96)
    assert cheapest([COST, slack], 0.99) == {"w": COST}
    assert cheapest([COST, slack], 0.95) == {"w": slack}
    assert cheapest([replace(COST, per_million_output_tokens=None), slack]) == {"w": None}


def test_costs_in_two_currencies_have_no_cheapest() -> None:
    assert cheapest([COST, replace(COST, arm="b", currency="EUR")]) == {"w": None}
