"""The Series page: a wall of small multiples, one series over time, its alarms, and links to two nights."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest

from host.settings import Settings
from jobs.series import store
from jobs.series.store import Plan
from tests.actors import ADMIN
from tests.jobs.series.nights import raise_fall
from tests.lab.studies import DRAFT, study
from tests.webapp.conftest import OpenPage
from tests.webapp.page_text import words
from warehouse.app_db import dashboards, pins
from warehouse.app_db.engine import open_engine
from warehouse.app_db.pins import PinnedFigure
from warehouse.app_db.schema import nights
from webapp.charts.theme import INKS
from webapp.pages.dashboards import render_pins
from webapp.pages.series import figures

START = datetime(2026, 6, 1, 2, tzinfo=UTC)
ARMS = [{"name": "no draft"}, {"name": "draft", "speculation": DRAFT}]


def night(number: int, **values: object) -> dict[str, object]:
    """Of nightly: 1.4 times as fast with a little noise; from the 20th night on a new version, slower by a tenth."""
    fell = number >= 20
    speedup = 1.4 * (0.9 if fell else 1) * (1 + 0.01 * math.sin(number * 2))
    usual = {
        "night_id": f"nightly {number}",
        "series": "nightly",
        "arm": "draft",
        "due_at": START + timedelta(days=number),
        "state": "measured",
        "job_id": f"job-{number}",
        "speedup": speedup,
        "low": speedup * 0.985,
        "high": speedup * 1.015,
        "acceptance_length": 2.6 - 0.2 * fell,
        "arm_tok_per_s": 140.0,
        "baseline_tok_per_s": 100.0 + number % 3,
        "hardware": "NVIDIA H100",
        "engine_version": f"vllm 0.3{2 + fell}.0",
        "speedup_finding": "fall" if number == 20 else "learning" if number < 8 or number > 20 else "usual",
        "acceptance_finding": "usual",
        "predicted_low": 1.35 if 8 <= number <= 20 else None,
        "predicted_high": 1.45 if 8 <= number <= 20 else None,
        "note": None,
    }
    return usual | values


def fill(settings: Settings) -> None:
    """A series with a confirmed fall, one outlier and a failed night; and one without nights."""
    with open_engine(settings.app_database_url) as database:
        for name in ("nightly", "weekly"):
            store.add(settings, database, name, study(arms=ARMS), Plan("day at 02:00"), actor=ADMIN)
        store.annotate(database, "nightly", "driver 580", START + timedelta(days=12), actor=ADMIN)
        rows = [night(number) for number in range(25)]
        rows[14] |= {"speedup": 1.2, "low": 1.1, "high": 1.3, "speedup_finding": "outlier"}
        without = dict.fromkeys(("speedup", "low", "high", "acceptance_length", "baseline_tok_per_s", "engine_version"))
        rows[16] |= without | {"state": "failed", "note": "EngineError: no memory", "speedup_finding": None}
        with database.begin() as connection:
            connection.execute(nights.insert(), rows)
        raise_fall(database, "nightly 20", START + timedelta(days=20, hours=1), "the speed-up fell by 10 %")


def test_without_a_series_the_page_says_how_to_add_one(open_page: OpenPage) -> None:
    assert "drafthouse series add STUDY" in words(open_page("series"))


def test_the_wall_shows_the_alarm_first_and_links_the_nights_around_the_fall(
    settings: Settings, open_page: OpenPage
) -> None:
    fill(settings)
    app = open_page("series")
    shown = words(app)
    assert "no night has a value yet" in shown
    assert "fell by 10" in shown
    links = [link.proto for link in app.get("page_link")]
    labels = [link.label for link in links]
    assert labels.index("nightly") < labels.index("weekly")
    (pair,) = (parse_qs(link.query_string) for link in links if "side by side" in link.label)
    assert pair == {"job": ["job-19"], "with": ["small · job-20"], "baseline": ["draft"]}


def test_figures_of_each_arm_are_cards_of_a_dashboard_live_or_as_of_a_night(
    settings: Settings, open_page: OpenPage
) -> None:
    fill(settings)
    open_page("series")
    with open_engine(settings.app_database_url) as database:
        with database.begin() as connection:
            again = [night(number, night_id=f"nightly {number} k=5", arm="k=5") for number in range(25)]
            connection.execute(nights.insert(), again)
        board = dashboards.create(database, "nights", actor=ADMIN)
        of, moment = {"series": ("nightly",)}, START + timedelta(days=9)
        for key, at in (("nights", None), ("nights-2", None), ("acceptance_length-2", None), ("nights", moment)):
            pins.add(database, board, PinnedFigure("series", of, key, at), "", actor=ADMIN)
        cards = render_pins.render(pins.pins_on(database, board), "light", "http://here/dashboards")
    assert [card.problem for card in cards] == [""] * 4
    drawn = [card.figure for card in cards if card.figure is not None]
    assert [set(figure.rows["arm"]) for figure in drawn] == [{"draft"}, {"k=5"}, {"k=5"}, {"draft"}]
    assert [len(figure.rows) for figure in drawn] == [25, 25, 25, 10]


def test_an_alarm_is_acknowledged_on_the_page(settings: Settings, open_page: OpenPage) -> None:
    fill(settings)
    app = open_page("series")
    app.text_input(key="note-1").set_value("the new scheduler").run()
    app.button(key="acknowledge-1").click().run()
    with open_engine(settings.app_database_url) as database:
        (alarm,) = store.alarms(database)
    assert alarm.acknowledgement == "the new scheduler"
    assert not app.error


def test_the_figures_have_every_night_and_mark_new_versions(settings: Settings, open_page: OpenPage) -> None:
    fill(settings)
    open_page("series")
    drawn = figures.figures({"series": ["nightly"]}, "light")
    assert [figure.key for figure in drawn] == ["nights", "acceptance_length", "baseline_tok_per_s"]
    (_, own_speed), *_ = drawn[-1].panels
    assert own_speed.to_dict()["layer"][0]["encoding"]["color"]["scale"]["range"][0] == INKS["light"].baseline
    rows = drawn[0].rows
    assert len(rows) == 25
    assert list(rows.loc[rows["is_new_version"], "engine_version"]) == ["vllm 0.32.0", "vllm 0.33.0"]
    assert rows["why"][15] == "measured"
    assert rows["why"][16] == "failed: EngineError: no memory"
    with pytest.raises(KeyError):
        figures.figures({}, "light")
