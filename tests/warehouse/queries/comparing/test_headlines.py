from __future__ import annotations

from datetime import date

import pytest

from lab.cost import Price
from lab.metrics.records import Identity
from tests.warehouse.asking import ask
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.app_db import price_book
from warehouse.app_db.engine import app_engine
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.headlines import Headline, headlines
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings


def headlines_of(settings: Settings) -> list[Headline]:
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        return headlines(con)


def pair_of_runs(settings: Settings, repeat: int, *, load: str = "c4", pace: float = 1.0, **changes: object) -> None:
    """A baseline and a drafted run of one repeat."""
    write(settings, RunSpec("plain", repeat, 1 + 0.002 * repeat, load=load), **changes)
    write(settings, RunSpec("drafted", repeat, pace, ROUNDS, load=load), **changes)


def test_what_others_published_is_no_headline_of_ours(settings: Settings) -> None:
    assert headlines_of(settings) == []
    ((published,),) = ask(settings, "select count(*) from results where origin = 'published'")
    assert published


def test_the_headline_is_the_best_cell_with_the_interval_of_its_comparison(settings: Settings) -> None:
    for repeat in range(3):  # three cells: enough for their variances to moderate each other
        pair_of_runs(settings, repeat)
        pair_of_runs(settings, repeat, load="c1", pace=0.97 + 0.02 * repeat)
        pair_of_runs(settings, repeat, load="c2", pace=0.9 + 0.01 * repeat)
    (found,) = headlines_of(settings)
    with open_warehouse(settings.warehouse_file) as con:
        (wanted,) = [pair for pair in compare_study(con, "small", strict=True).pairs if pair.cell.pattern == "c2"]
    assert (found.arm, found.cell, found.repeats, found.cells) == ("drafted", wanted.cell, 3, 3)
    assert found.ratio.low is not None
    assert "like cells" in wanted.comparison.basis
    assert found.ratio == wanted.comparison.ratio
    assert (found.verdict, wanted.verdict.word) == ("faster", "faster")
    ((rate,),) = ask(settings, "select avg(output_tok_per_s) from results where arm = 'drafted' and pattern = 'c2'")
    assert found.output_tok_per_s == pytest.approx(rate)


def test_a_cell_with_repeats_goes_before_a_better_one_without(settings: Settings) -> None:
    pair_of_runs(settings, 0, load="c2", pace=0.5)
    (alone,) = headlines_of(settings)
    assert (alone.cell.pattern, alone.ratio.low, alone.repeats) == ("c2", None, 1)
    for repeat in range(2):
        pair_of_runs(settings, repeat)
    (found,) = headlines_of(settings)
    assert (found.cell.pattern, found.repeats) == ("c4", 2)


def test_an_arm_that_is_the_baseline_again_is_no_headline(settings: Settings) -> None:
    def identity(arm: str) -> Identity:
        return Identity(cell_id=arm, arm_id=arm, workload_id="w", load_id="l")

    for repeat in range(2):
        write(settings, RunSpec("plain", repeat), identity=identity("plain"))
        write(settings, RunSpec("plain again", repeat, 0.3), identity=identity("plain"))
        write(settings, RunSpec("drafted", repeat, 0.9, ROUNDS), identity=identity("drafted"))
    (found,) = headlines_of(settings)
    assert (found.arm, found.cells) == ("drafted", 1)


def test_each_target_has_its_own_and_what_cannot_be_believed_has_none(settings: Settings) -> None:
    pair_of_runs(settings, 0)
    other = {"target": "another", "job_id": "20261121-000000-0000"}
    write(settings, RunSpec("plain", 0, workload="other"), **other)
    write(settings, RunSpec("drafted", 0, 1.0, ROUNDS, workload="other"), **other, status="failed", error="it died")
    (found,) = headlines_of(settings)
    assert found.target != "another"
    assert ask(settings, "select count(*) from results where target = 'another'") == [(2,)]


def test_the_cost_is_known_where_the_price_is(settings: Settings) -> None:
    pair_of_runs(settings, 0)
    (unpriced,) = headlines_of(settings)
    assert (unpriced.cost, unpriced.currency) == (None, None)
    engine = app_engine(settings.app_database_url)
    price_book.add(
        engine,
        Price(hardware="H200", valid_from=date(2026, 1, 1), currency="EUR", source="bill", rented_per_hour=3.6),
    )
    engine.dispose()
    (found,) = headlines_of(settings)
    assert found.currency == "EUR"
    assert found.cost == pytest.approx(3.6 / 3600 / found.output_tok_per_s * 1e6)
