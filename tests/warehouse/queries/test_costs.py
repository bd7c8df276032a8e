"""From bundles and prices to what tokens cost with each arm."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from lab.cost import Price
from lab.errors import QueryError
from tests.warehouse.asking import ask
from tests.warehouse.runs import circumstances
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.app_db import price_book
from warehouse.app_db.engine import app_engine
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparisons import compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import ArmCost, study_costs
from warehouse.settings import Settings

_RATES = """
    SELECT arm, pattern, avg(output_tok_per_s), avg(total_tok_per_s), avg(request_per_s)
    FROM results WHERE origin = 'measured' GROUP BY ALL
"""
_STARTS = """
    SELECT 2 * any_value(engine_start_s), sum(duration_s), sum(completion_tokens) / 2 FROM results WHERE arm = '{arm}'
"""


@pytest.fixture(scope="module")
def measured(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Only read. Each of two repeats starts each arm's engine once, for two loads."""
    home = tmp_path_factory.mktemp("costs") / "home"
    shutil.copytree(migrated, home)
    settings = Settings(home=home)
    for repeat in range(2):
        for place, (arm, rounds) in enumerate({"plain": None, "drafted": ROUNDS}.items()):
            for load in ("c2", "c4"):
                pace = 1 + 0.002 * repeat + 0.001 * place
                write(settings, RunSpec(arm, repeat, pace, rounds, load=load), launch_index=2 * repeat + place)
    ingest_all(settings)
    return settings


def costs(settings: Settings, price: float | None = 3.6) -> dict[tuple[str, str], ArmCost]:
    with open_warehouse(settings.warehouse_file) as con:
        return {(each.arm, each.cell.pattern): each for each in study_costs(con, "small", price)}


def test_a_cost_is_the_price_of_the_time_that_tokens_took(measured: Settings) -> None:
    found = costs(measured)
    for arm, load, rate, total, requests in ask(measured, _RATES):
        each = found[arm, load]
        assert each.per_million_output_tokens == pytest.approx(3.6 / 3600 / rate * 1e6)
        assert each.per_million_tokens == pytest.approx(3.6 / 3600 / total * 1e6)
        assert each.per_request == pytest.approx(3.6 / 3600 / requests)


def test_a_start_is_paid_for_once_by_all_windows_on_it(measured: Settings) -> None:
    found = costs(measured)
    for arm in ("plain", "drafted"):
        ((starts, windows, tokens),) = ask(measured, _STARTS.format(arm=arm))
        paid = sum((found[arm, load].with_start_up or 0) * float(tokens) / 1e6 for load in ("c2", "c4"))
        assert paid == pytest.approx(3.6 / 3600 * (starts + windows))


def test_a_start_that_was_not_timed_makes_its_cost_unknown(settings: Settings) -> None:
    around = circumstances(hardware="NVIDIA H200", start_s=None)
    write(settings, RunSpec("plain", 0), circumstances=around)
    ingest_all(settings)
    (found,) = costs(settings).values()
    assert found.with_start_up is None
    assert found.per_million_output_tokens is not None


def test_the_peak_is_the_load_of_the_greatest_throughput(measured: Settings) -> None:
    assert {key for key, each in costs(measured).items() if each.at_peak} == {("plain", "c4"), ("drafted", "c4")}


def test_a_saving_carries_the_interval_of_the_throughputs(measured: Settings) -> None:
    found = costs(measured)["drafted", "c4"]
    with open_warehouse(measured.warehouse_file) as con:
        ratios = {pair.cell.pattern: pair.comparison.ratio for pair in compare_study(con, "small").pairs}
    ratio = ratios["c4"]
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert found.saving == pytest.approx(1 - 1 / ratio.value)
    assert (found.saving_low, found.saving_high) == pytest.approx((1 - 1 / ratio.low, 1 - 1 / ratio.high))
    assert costs(measured)["plain", "c4"].saving is None


def test_energy_becomes_electricity_where_its_price_is_known(settings: Settings) -> None:
    write(settings, RunSpec("plain", 0))
    ingest_all(settings)
    assert costs(settings)["plain", "c4"].electricity_per_million_output_tokens is None
    with pytest.raises(QueryError, match="no price is recorded"):
        costs(settings, price=None)
    engine = app_engine(settings.app_database_url)
    price = Price(
        hardware="H200",
        valid_from=date(2026, 1, 1),
        currency="EUR",
        source="bill",
        rented_per_hour=3.0,
        electricity_per_kwh=0.3,
    )
    price_book.add(engine, price)
    engine.dispose()
    ingest_all(settings)
    found = costs(settings, price=None)["plain", "c4"]
    ((joules,),) = ask(
        settings, "select avg(energy_j_per_output_token) from results where arm = 'plain' and pattern = 'c4'"
    )
    assert (found.currency, found.price_source) == ("EUR", "bill")
    assert found.kwh_per_million_output_tokens == pytest.approx(joules / 3.6)
    assert found.electricity_per_million_output_tokens == pytest.approx(joules / 3.6 * 0.3)
