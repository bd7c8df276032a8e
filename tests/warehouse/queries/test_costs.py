"""From bundles and prices to what tokens cost with each arm."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb
import pytest

from host.settings import Settings
from lab.cost import Price
from lab.errors import QueryError
from lab.study import Slo
from tests.actors import ADMIN
from tests.lab.metrics.test_measure import answered
from tests.lab.metrics.test_rounds import TWO, window
from tests.warehouse.asking import ask
from tests.warehouse.queries.arm_costs import COST
from tests.warehouse.runs import BASELINE_ARM, DRAFT_ARM, circumstances, ingested, write_run
from tests.warehouse.studies import ROUNDS, TOKENS, RunSpec, write
from warehouse.app_db import price_book
from warehouse.app_db.engine import open_engine
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.paired_runs import CellKey
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import ArmCost, cheapest, meets_slo, slo_of, study_costs

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
        return {(arm_cost.arm, arm_cost.cell.pattern): arm_cost for arm_cost in study_costs(con, "small", price)}


def test_a_cost_is_the_price_of_the_time_that_tokens_took(measured: Settings) -> None:
    by_cell = costs(measured)
    for arm, load, rate, total, requests in ask(measured, _RATES):
        arm_cost = by_cell[arm, load]
        assert arm_cost.per_million_output_tokens == pytest.approx(3.6 / 3600 / rate * 1e6)
        assert arm_cost.per_million_tokens == pytest.approx(3.6 / 3600 / total * 1e6)
        assert arm_cost.per_request == pytest.approx(3.6 / 3600 / requests)


def test_a_start_is_paid_for_once_by_all_windows_on_it(measured: Settings) -> None:
    by_cell = costs(measured)
    for arm in ("plain", "drafted"):
        ((starts, windows, tokens),) = ask(measured, _STARTS.format(arm=arm))
        paid = sum((by_cell[arm, load].with_start_up or 0) * float(tokens) / 1e6 for load in ("c2", "c4"))
        assert paid == pytest.approx(3.6 / 3600 * (starts + windows))


def test_hosts_that_share_a_launch_pay_for_a_start_each(settings: Settings) -> None:
    for load, host in (("c2", "h1"), ("c4", "h2")):
        around = circumstances(hardware="NVIDIA H200", start_s=30.0, host=host)
        write(settings, RunSpec("plain", 0, load=load), circumstances=around, launch_index=0)
    ingest_all(settings)
    tokens = dict(ask(settings, "SELECT pattern, sum(completion_tokens)::DOUBLE FROM results GROUP BY ALL"))
    for (_, load), arm_cost in costs(settings).items():
        assert arm_cost.with_start_up is not None
        assert arm_cost.per_million_output_tokens is not None
        of_start = arm_cost.with_start_up - arm_cost.per_million_output_tokens
        assert of_start == pytest.approx(3.6 / 3600 * 30 / tokens[load] * 1e6)


def test_what_makes_twice_the_tokens_costs_half_in_rounds_too(settings: Settings) -> None:
    """Two arms of a side-by-side study, each in two windows; the draft takes half the time for all of it."""
    for arm, pace in ((BASELINE_ARM, 1.0), (DRAFT_ARM, 0.5)):
        begins = ((0, 0.0), (0, 2.0), (1, 4.0), (1, 6.0))
        requests = tuple(
            answered(
                pace * at_s, pace * (at_s + 2.0), round=number, requested_output_tokens=4, index=4 * number + place
            )
            for number, at_s in begins
            for place in range(2)
        )
        windows = (window(0.0, 4.0 * pace), window(4.0 * pace, 8.0 * pace))
        about = {"run_id": arm.name, "cell_key": arm.name, "job_id": "job", "is_baseline": arm is BASELINE_ARM}
        write_run(settings.bundles, requests, arm=arm, load=TWO, windows=windows, duration_s=8.0 * pace, **about)
    with ingested(settings) as con:
        (speed,) = compare_study(con, "job").pairs
        (cost,) = compare_study(con, "job", "cost", price_usd_per_hour=3.6).pairs
    assert [pair.verdict.word for pair in (speed, cost)] == ["faster", "faster"]
    assert [pair.ratio and pair.ratio.value for pair in (speed, cost)] == pytest.approx([2.0, 0.5])
    assert cost.comparison.difference is not None
    assert cost.comparison.difference.value == pytest.approx(3.6 / 3600 * 1e6 * (1 / 8 - 1 / 4))


def test_a_start_that_was_not_timed_makes_its_cost_unknown(settings: Settings) -> None:
    around = circumstances(hardware="NVIDIA H200", start_s=None)
    write(settings, RunSpec("plain", 0), circumstances=around)
    ingest_all(settings)
    (arm_cost,) = costs(settings).values()
    assert arm_cost.with_start_up is None
    assert arm_cost.per_million_output_tokens is not None


def test_the_peak_is_the_load_of_the_greatest_throughput(measured: Settings) -> None:
    assert {key for key, arm_cost in costs(measured).items() if arm_cost.at_peak} == {
        ("plain", "c4"),
        ("drafted", "c4"),
    }


def test_a_saving_carries_the_interval_of_the_throughputs(measured: Settings) -> None:
    arm_cost = costs(measured)["drafted", "c4"]
    with open_warehouse(measured.warehouse_file) as con:
        ratios = {pair.cell.pattern: pair.comparison.ratio for pair in compare_study(con, "small").pairs}
    ratio = ratios["c4"]
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert arm_cost.saving == pytest.approx(1 - 1 / ratio.value)
    assert (arm_cost.saving_low, arm_cost.saving_high) == pytest.approx((1 - 1 / ratio.low, 1 - 1 / ratio.high))
    assert costs(measured)["plain", "c4"].saving is None


def test_energy_becomes_electricity_where_its_price_is_known(settings: Settings) -> None:
    write(settings, RunSpec("plain", 0))
    ingest_all(settings)
    assert costs(settings)["plain", "c4"].electricity_per_million_output_tokens is None
    with pytest.raises(QueryError, match="no price is recorded"):
        costs(settings, price=None)
    with open_engine(settings.app_database_url) as engine:
        price = Price(
            hardware="H200",
            valid_from=date(2026, 1, 1),
            currency="EUR",
            source="bill",
            rented_per_hour=3.0,
            electricity_per_kwh=0.3,
        )
        price_book.add(engine, price, actor=ADMIN)
    ingest_all(settings)
    arm_cost = costs(settings, price=None)["plain", "c4"]
    ((joules,),) = ask(
        settings, "select avg(energy_j_per_output_token) from results where arm = 'plain' and pattern = 'c4'"
    )
    assert (arm_cost.currency, arm_cost.price_source) == ("EUR", "bill")
    assert arm_cost.kwh_per_million_output_tokens == pytest.approx(joules / 3.6)
    assert arm_cost.electricity_per_million_output_tokens == pytest.approx(joules / 3.6 * 0.3)


def test_answer_tokens_bear_the_cost_of_the_reasoning_before_them(settings: Settings) -> None:
    """A quarter of the tokens is answer. Where nothing was reasoned, or no answer came, there is no such cost."""
    for arm, reasoned in (("plain", 3 * TOKENS // 4), ("silent", 0), ("endless", TOKENS), ("untold", None)):
        write(settings, RunSpec(arm, 0, reasoned=reasoned))
    ingest_all(settings)
    found = {arm: arm_cost for (arm, _), arm_cost in costs(settings).items()}
    plain = found["plain"]
    assert plain.per_million_output_tokens is not None
    assert plain.per_million_answer_tokens == pytest.approx(4 * plain.per_million_output_tokens)
    assert [found[arm].per_million_answer_tokens for arm in ("silent", "endless", "untold")] == [None] * 3


def test_the_cheapest_arm_within_the_slo_is_chosen(
    settings: Settings,
) -> None:
    """The drafted arm is the cheaper one, and each of its requests breaks a bound."""
    slo = Slo(e2e_ms=1e9, ttft_ms=1e9)
    write(settings, RunSpec("plain", 0), slo=slo)
    write(settings, RunSpec("drafted", 0, 1.0, ROUNDS), slo=Slo(e2e_ms=1e-3, ttft_ms=1e9))
    with ingested(settings) as con:
        by_arm = {arm_cost.arm: arm_cost for arm_cost in study_costs(con, "small", 3.6)}
        given = slo_of(con, "small")
    assert given is not None
    assert by_arm["plain"].within_slo == pytest.approx(1.0)
    assert by_arm["drafted"].within_slo == 0.0
    (best,) = cheapest(list(by_arm.values())).values()
    assert best is not None
    assert best.arm == "plain"
    assert (best.per_million_output_tokens or 0) > (by_arm["drafted"].per_million_output_tokens or 0)


def test_what_one_repeat_lacks_makes_its_sum_over_repeats_unknown(settings: Settings) -> None:
    """A file may record neither how many requests failed nor all tokens."""
    for repeat in range(2):
        write(settings, RunSpec("plain", repeat), slo=Slo(e2e_ms=1e9))
    ingest_all(settings)
    known = costs(settings)["plain", "c4"]
    assert known.within_slo == 1.0
    assert known.with_start_up is not None
    with duckdb.connect(settings.warehouse_file) as warehouse:
        warehouse.execute(
            "UPDATE run_metrics SET requests_failed = NULL, completion_tokens = NULL WHERE run_id LIKE '%1'"
        )
    unknown = costs(settings)["plain", "c4"]
    assert (unknown.within_slo, unknown.with_start_up) == (None, None)
    assert unknown.per_million_output_tokens == known.per_million_output_tokens


def test_without_an_slo_nothing_keeps_one(settings: Settings) -> None:
    write(settings, RunSpec("plain", 0), slo=Slo())
    with ingested(settings) as con:
        (arm_cost,) = study_costs(con, "small", 3.6)
        assert slo_of(con, "small") is None
    assert arm_cost.within_slo is None
    assert meets_slo(arm_cost) is None
    assert cheapest([arm_cost]) == {arm_cost.cell.workload: None}


def test_the_cheapest_of_several_loads_keeps_the_wanted_share() -> None:
    slack = replace(COST, cell=CellKey("w", "c8", 8), per_million_output_tokens=2.0, within_slo=0.96)
    assert cheapest([COST, slack], 0.99) == {"w": COST}
    assert cheapest([COST, slack], 0.95) == {"w": slack}
    assert cheapest([replace(COST, per_million_output_tokens=None), slack]) == {"w": None}


def test_costs_in_two_currencies_have_no_cheapest() -> None:
    assert cheapest([COST, replace(COST, arm="b", currency="EUR")]) == {"w": None}
