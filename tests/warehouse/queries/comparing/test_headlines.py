from __future__ import annotations

import math
from datetime import date

import pytest

from host.settings import Settings
from lab.cost import Price
from lab.metrics.records import Identity
from tests.actors import ADMIN
from tests.warehouse.asking import ask
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.app_db import price_book
from warehouse.app_db.engine import app_engine
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.headlines import Headline, headlines
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import study_costs


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


def test_the_headline_is_the_mean_over_all_cells(
    settings: Settings,
) -> None:
    for repeat in range(3):  # three cells: enough for their variances to moderate each other
        pair_of_runs(settings, repeat)
        pair_of_runs(settings, repeat, load="c1", pace=0.97 + 0.02 * repeat)
        pair_of_runs(settings, repeat, load="c2", pace=0.9 + 0.01 * repeat)
    (headline,) = headlines_of(settings)
    with open_warehouse(settings.warehouse_file) as con:
        compared = compare_study(con, "small")
        mean = arm_means(compared)["drafted"]
    (best,) = [pair for pair in compared.pairs if pair.cell.pattern == "c2"]
    assert headline.arm is not None
    assert (headline.arms, headline.arm.arm, headline.arm.cells) == (1, "drafted", 3)
    assert headline.arm.mean == mean.ratio
    ratios = [pair.ratio.value for pair in compared.pairs if pair.ratio is not None]
    assert headline.arm.mean.value == pytest.approx(math.exp(sum(map(math.log, ratios)) / 3))
    assert (headline.arm.verdict, mean.verdict.word) == ("faster", "faster")
    assert headline.arm.best is not None
    assert best.ratio is not None
    assert (headline.arm.best.cell, headline.arm.best.ratio) == (best.cell, best.ratio)
    assert headline.arm.mean.value < best.ratio.value == max(ratios)


def test_one_repeat_is_no_headline_however_great_its_ratio(settings: Settings) -> None:
    pair_of_runs(settings, 0, load="c2", pace=0.5)
    (alone,) = headlines_of(settings)
    assert (alone.arms, alone.arm) == (1, None)
    pair_of_runs(settings, 1, load="c2", pace=0.5)
    (headline,) = headlines_of(settings)
    assert headline.arm is not None
    assert headline.arm.best is not None
    assert (headline.arm.best.cell.pattern, headline.arm.cells) == ("c2", 1)


def test_an_arm_that_is_the_baseline_again_is_no_headline(settings: Settings) -> None:
    def identity(arm: str) -> Identity:
        return Identity(cell_id=arm, arm_id=arm, workload_id="w", load_id="l")

    for repeat in range(2):
        write(settings, RunSpec("plain", repeat), identity=identity("plain"))
        write(settings, RunSpec("plain again", repeat, 0.3), identity=identity("plain"))
    assert headlines_of(settings) == []
    for repeat in range(2):
        write(settings, RunSpec("drafted", repeat, 0.9, ROUNDS), identity=identity("drafted"))
    (headline,) = headlines_of(settings)
    assert headline.arm is not None
    assert (headline.arm.arm, headline.arms) == ("drafted", 1)


def test_the_newest_study_of_a_target_gives_the_headline(settings: Settings) -> None:
    for repeat in range(2):
        pair_of_runs(settings, repeat, pace=0.5)
        newer = {"job_id": "20261122-000000-0000", "started_at": f"2026-11-22T04:0{repeat}:00+00:00"}
        pair_of_runs(settings, repeat, load="c2", pace=1.0, **newer)
    (headline,) = headlines_of(settings)
    assert headline.job_id == "20261122-000000-0000"


def test_each_target_has_its_own_and_what_cannot_be_believed_has_none(settings: Settings) -> None:
    pair_of_runs(settings, 0)
    other = {"target": "another", "job_id": "20261121-000000-0000"}
    write(settings, RunSpec("plain", 0, workload="other"), **other)
    write(settings, RunSpec("drafted", 0, 1.0, ROUNDS, workload="other"), **other, status="failed", error="it died")
    (headline,) = headlines_of(settings)
    assert headline.target != "another"
    assert ask(settings, "select count(*) from results where target = 'another'") == [(2,)]


def test_the_cost_is_that_of_the_cost_page(settings: Settings) -> None:
    for repeat in range(2):
        pair_of_runs(settings, repeat)
    (unpriced,) = headlines_of(settings)
    assert unpriced.arm is not None
    assert (unpriced.arm.cost, unpriced.arm.currency) == (None, None)
    engine = app_engine(settings.app_database_url)
    price_book.add(
        engine,
        Price(hardware="H200", valid_from=date(2026, 1, 1), currency="EUR", source="bill", rented_per_hour=3.6),
        actor=ADMIN,
    )
    engine.dispose()
    (headline,) = headlines_of(settings)
    with open_warehouse(settings.warehouse_file) as con:
        (wanted,) = [arm_cost for arm_cost in study_costs(con, "small") if arm_cost.arm == "drafted"]
    assert headline.arm is not None
    assert (headline.arm.cost, headline.arm.currency) == (wanted.per_million_output_tokens, "EUR")
