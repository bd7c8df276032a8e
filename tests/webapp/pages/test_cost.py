from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pytest

from host.settings import Settings
from interchange.store import import_paths
from lab.cost import Price
from lab.errors import UserError
from lab.metrics.number_format import number
from lab.study import Slo
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.warehouse.queries.arm_costs import COST
from tests.webapp.conftest import OpenPage, using_home
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, ran, words
from warehouse.app_db import price_book
from warehouse.app_db.engine import open_engine
from warehouse.app_db.price_book import Entry
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.paired_runs import CellKey
from webapp.charts import cost
from webapp.pages.cost import price_book as page_book
from webapp.pages.cost import selection, tables
from webapp.pages.cost.tables import rows, table

SLO = {"ttft_ms": 1000, "tpot_ms": 30}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three repeats on hardware that nobody has priced."""
    settings = make_home(tmp_path_factory.mktemp("priced"))
    measure_study(settings, study(name="priced", repeats=3, slo=SLO))
    return settings


@pytest.fixture
def settings(measured: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """One home for all of this module's pages."""
    with using_home(measured, monkeypatch):
        yield measured


def entries(settings: Settings) -> list[Entry]:
    with open_engine(settings.app_database_url) as engine:
        return price_book.entries(engine)


def test_a_price_is_added_to_the_book_and_withdrawn_and_that_undone(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("cost")
    assert "No price is recorded for AMD EPYC 7B13 (2 cores) on 2026-11-21" in words(app)
    assert "The price book is empty. Add an hourly price" in words(app)
    app.session_state["price-form"] = True
    app.run()
    app.button(key="price-add").click().run()
    for sentence in ("enter where the price comes from", "enter the price of an hour, above 0"):
        assert sentence in words(app)
    app.text_input(key="price-source").set_value("a list")
    app.number_input(key="price-rented_per_hour").set_value(3.6)
    app.date_input(key="price-valid_from").set_value(date(2026, 1, 1))
    app.button(key="price-add").click().run()
    assert not app.exception
    (entry,) = entries(settings)
    assert (entry.price.hardware, entry.price.per_hour) == ("AMD EPYC 7B13 (2 cores)", 3.6)
    app.session_state["price-form"] = True
    app.run()
    app.button(key="price-add").click().run()  # a click may come twice
    assert entries(settings) == [entry]
    assert "Entry 1 was added" in words(app)
    ingest_all(settings)
    app.run()
    assert "Hourly price: 3.60 USD (a list)" in words(app)
    app.button(key="price-withdraw-it").click().run()
    assert entries(settings)[0].withdrawn_at is not None
    assert "Entry 1 was withdrawn" in words(app)
    app.button(key="price-undo").click().run()
    assert [entry.withdrawn_at is None for entry in entries(settings)] == [False, True]
    assert "The price was added again, as entry 2" in words(app)


def test_the_price_form_starts_empty_where_an_import_lacks_the_hardware(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = make_home(tmp_path)
    import_paths(imported, [SAMPLES / "vllm-bench" / "spec-code-c4.json"], actor=ADMIN)
    ingest_all(imported)
    with using_home(imported, monkeypatch):
        app = open_page("cost")
        app.session_state["price-form"] = True
        ran(app.run())
        assert app.text_input(key="price-hardware").value == ""


@pytest.mark.parametrize(
    ("hardware", "submitted_at", "likely"),
    [
        ("H200, H100", pd.Timestamp("2026-11-21 04:00", tz="UTC"), ("H200", date(2026, 11, 21))),
        (float("nan"), pd.Timestamp("2026-11-21 04:00", tz="UTC"), ("", date(2026, 11, 21))),
    ],
)
def test_a_new_price_starts_with_the_newest_studys_hardware_and_day(
    hardware: object, submitted_at: object, likely: tuple[str, date]
) -> None:
    studies = pd.DataFrame({"hardware": [hardware, "older"], "submitted_at": [submitted_at, pd.NaT]})
    assert selection.likely_entry(studies) == likely


@pytest.mark.parametrize(
    "studies", [pd.DataFrame(), pd.DataFrame({"hardware": [None, "older"], "submitted_at": [pd.NaT, pd.NaT]})]
)
def test_without_a_day_a_new_price_is_likely_of_today(studies: pd.DataFrame) -> None:
    days = [datetime.now(UTC).date()]
    likely = selection.likely_entry(studies)
    days.append(datetime.now(UTC).date())  # it may be past midnight by now
    assert likely in [("", day) for day in days]


def test_a_priced_study_shows_costs_savings_and_who_meets_the_slo(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("cost", price="7.2", utilisation="50")
    shown = words(app)
    assert re.search(r"Hourly price: 14.4 USD \(.*\), at 50 % utilisation\.", shown)
    assert "TTFT at most 1000 ms, TPOT at most 30 ms, for 99 % of requests" in shown
    assert "95 % interval" in shown
    assert "Cost per million output tokens (USD) by load" in shown
    slo = open_page("cost", price="7.2", utilisation="50", cost_tab="Cheapest within the SLO")
    costs, best = app.dataframe[0].value, slo.dataframe[0].value
    draft = costs[(costs["arm"] == "draft") & (costs["concurrency"] == 1)].iloc[0]
    baseline = costs[(costs["arm"] == "no draft") & (costs["concurrency"] == 1)].iloc[0]
    ratio = draft["per_million_output_tokens"] / baseline["per_million_output_tokens"]
    assert draft["saving"] == pytest.approx(100 * (1 - ratio), abs=0.5)
    assert draft["saving_low"] < draft["saving"] < draft["saving_high"]
    assert (baseline["meets_slo"], costs[costs["concurrency"] == 4]["meets_slo"].unique().tolist()) == ("yes", ["no"])
    assert list(best["arm"]) == ["draft"]
    assert len(app.get("vega_lite_chart")) == 2

    shown = words(open_page("cost", price="cheap", utilisation="150"))
    assert "'cheap' is not a valid price: enter USD per hour, above 0, like 3.50" in shown
    assert "'150' is not a valid utilisation" in shown
    assert "Price book" in shown


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e12", "3 USD", "1,5"])
def test_a_price_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(UserError, match="is not a valid price"):
        selection.price_of(text)


def test_utilisation_is_percent() -> None:
    assert selection.utilisation_of("60 %") == 0.6
    assert selection.utilisation_of("") is None
    with pytest.raises(UserError, match="is not a valid utilisation"):
        selection.utilisation_of("0")


def test_a_form_that_says_too_little_names_each_field() -> None:
    price, problems = page_book.read({"kind": page_book.BOUGHT, "currency": "usd", "utilisation": 101.0})
    assert price is None
    wanted = {"hardware", "source", "currency", "valid_from", "purchase_price", "lifetime_years", "utilisation"}
    assert set(problems) == wanted
    bought = {"hardware": "H200", "source": "bill", "currency": "EUR", "valid_from": date(2026, 1, 1)}
    bought |= {"kind": page_book.BOUGHT, "purchase_price": 8766.0, "lifetime_years": 2.0, "utilisation": 50.0}
    entered, problems = page_book.read(bought)
    assert problems == {}
    assert isinstance(entered, Price)
    assert entered.per_hour == pytest.approx(1.0)


def test_the_address_names_the_study_even_without_a_price(open_page: OpenPage, settings: Settings) -> None:
    with open_engine(settings.app_database_url) as engine:
        for entry in entries(settings):  # of other tests
            if entry.withdrawn_at is None:
                price_book.withdraw(engine, entry.price_id, actor=ADMIN)
    ingest_all(settings)
    app = open_page("cost")
    assert "No price is recorded" in words(app)
    assert app.query_params["job"]
    assert open_page("cost", price="much").query_params["job"]


def test_a_typed_price_can_be_kept_in_the_book(open_page: OpenPage) -> None:
    assert "Keep this price" not in [button.label for button in open_page("cost").button]
    app = click(open_page("cost", price="2.5"), "Keep this price")
    assert app.number_input(key="price-rented_per_hour").value == 2.5


def test_cost_begins_with_and_without_in_the_surest_cell() -> None:
    base = replace(COST, arm="no draft", is_baseline=True, saving=None, verdict=None)
    sure = replace(COST, arm="draft", is_baseline=False, saving=0.3, saving_low=0.2, saving_high=0.4, verdict="cheaper")
    lucky = replace(sure, arm="lucky", saving=0.6, saving_low=-0.2, saving_high=0.8, verdict="inconclusive")
    without, with_, saving = tables.beside_cards([base, lucky, sure])
    assert (without.label, with_.label) == ("Without: no draft", "With: draft")
    assert (saving.value, saving.detail) == (
        "30.0 %",
        "▲ cheaper, 95 % CI [20.0, 40.0] by the usual reading; the surest of 2 comparisons",
    )
    wide = replace(lucky, saving_low=-30.0, saving_high=0.99)
    saving = tables.beside_cards([base, wide])[2]
    assert (saving.value, saving.detail) == ("unknown", "? inconclusive, no interval is narrow enough to say")


def test_the_lowest_cost_needs_one_currency_and_energy_needs_a_measurement() -> None:
    both = [COST, replace(COST, arm="b", currency="EUR", per_million_output_tokens=1.0)]
    assert tables.lowest_cost_card(both).value == "–"
    assert tables.lowest_cost_card([COST]).value == "3.00 USD"
    assert tables.energy_card([COST]).value == "not measured"
    measured = replace(COST, kwh_per_million_output_tokens=0.5, electricity_per_million_output_tokens=0.1)
    assert tables.energy_card([COST, measured]).detail.endswith("electricity 0.100 USD")
    assert tables.slo_card(None, {}, 0.99, [COST]).value == "no SLO"
    within = tables.slo_card(Slo(ttft_ms=100), {COST.cell.workload: COST}, 0.99, [COST])
    paid = f"{number(COST.per_million_output_tokens)} USD per 10⁶ output tokens, {tables.where(COST)}"
    assert (within.value, within.detail) == (COST.arm, f"{paid}: TTFT at most 100 ms, for 99 % of requests")


def test_a_table_has_energy_and_answers_only_where_they_were_measured() -> None:
    assert "per_million_answer_tokens" not in table(rows([COST], 0.99), has_slo=False)
    reasoned = replace(COST, per_million_answer_tokens=9.0)
    assert list(table(rows([reasoned], 0.99), has_slo=False)["per_million_answer_tokens"]) == [9.0]
    assert "kwh_per_million_output_tokens" not in table(rows([COST], 0.99), has_slo=False)
    measured = replace(COST, kwh_per_million_output_tokens=0.5)
    assert list(table(rows([measured], 0.99), has_slo=True)["within_slo"]) == [100.0]


def test_axes_hold_every_point_interval_and_zero() -> None:
    frame = pd.DataFrame({"cost": [0.5, 80.0]})
    low, high = cost.domain(frame)
    assert low < frame["cost"].min()
    assert high > frame["cost"].max()
    assert all(low <= tick <= high for tick in cost.ticks((low, high)))
    assert 2 <= len(cost.ticks((low, high))) <= 7
    assert len(cost.ticks((1.02, 1.09))) <= 7
    saved = [replace(COST, cell=CellKey("w", "c1", 1), saving=0.2, saving_low=-0.1, saving_high=0.4)]
    low, high = cost.saving_domain(rows(saved, 0.99))
    assert low < -0.1
    assert high > 0.4
    wide = [replace(saved[0], saving_low=-6.0), replace(saved[0], saving=-1.5, saving_low=-6.0)]
    assert -1.2 < cost.saving_domain(rows(wide[:1], 0.99))[0] < -1.0  # not pressed together by one interval
    assert cost.saving_domain(rows(wide, 0.99))[0] < -1.5
    alone = rows([replace(COST, saving=0.2)], 0.99)
    low, high = cost.saving_domain(alone)
    assert low < 0
    assert high > 0.2
