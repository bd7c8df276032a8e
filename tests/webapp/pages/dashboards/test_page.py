"""Dashboards: pinned from a figure's menu, shown in order, changed, removed and brought back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from tests.actors import ADMIN
from tests.webapp.conftest import MeasuredHome, OpenPage, using_home
from tests.webapp.homes import make_home
from tests.webapp.measured import START
from tests.webapp.page_text import click, ran, words
from warehouse.app_db import dashboards, pins, saved_views
from warehouse.app_db.engine import open_engine
from warehouse.app_db.pins import Pin, PinnedFigure
from warehouse.queries.point_in_time import as_of
from webapp.charts.custom import ChartSpec
from webapp.pages.dashboards import render_pins, variables
from webapp.shared import downloads, published_data

HOSTILE = "<b>Monday</b> $x$ :smile: [a](http://b)"


@pytest.fixture
def settings(measured_home: MeasuredHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    with using_home(measured_home.settings, monkeypatch):
        yield measured_home.settings


def press(app: AppTest, key: str) -> AppTest:
    return ran(app.button(key=key).click().run())


def query(database: sa.Engine, sql: str, chart: ChartSpec | None = None) -> dict[str, tuple[str, ...]]:
    state = {"sql": sql, "drawn": None if chart is None else asdict(chart)}
    return {"query": (saved_views.save(database, "sql", state, actor=ADMIN),)}


def pin(database: sa.Engine, board: str, figure: PinnedFigure, caption: str = "") -> str:
    return pins.add(database, board, figure, caption, actor=ADMIN)


def test_a_pin_that_cannot_be_drawn_says_why_beside_the_others(
    database: sa.Engine, measured_home: MeasuredHome
) -> None:
    job = {"job": (measured_home.three_arms,)}
    gone, because = "This figure cannot be shown", "This figure cannot be drawn: "
    wanted = [
        (PinnedFigure("results", {"job": ("20200101-000000-0000",)}, "speedup"), gone),
        (PinnedFigure("results", job | {"metric": ("no such",)}, "speedup"), gone),
        (PinnedFigure("sql", {"query": ("0123456789ab",)}, "table"), f"{because}the query 0123456789ab does not exist"),
        (PinnedFigure("sql", query(database, "select no_such from results"), "table"), because),
        (PinnedFigure("elsewhere", {}, "x"), "This version of Drafthouse has no page 'elsewhere'."),
        (PinnedFigure("results", job, "speedup"), ""),
        (PinnedFigure("advice", job, "predicted"), ""),  # of a page that became another
        (PinnedFigure("sql", query(database, "select 1 as a", ChartSpec("bar", "a", "b")), "chart"), ""),
    ]
    board = dashboards.create(database, "what cannot be drawn", actor=ADMIN)
    for pinned, _ in wanted:
        pin(database, board, pinned)
    cards = render_pins.render(pins.pins_on(database, board), "light", "http://here/dashboards")
    for card, (_, problem) in zip(cards, wanted, strict=True):
        assert card.problem.startswith(problem)
        assert (card.figure is None) == bool(problem)
    assert cards[0].about.link == "http://here/results?job=20200101-000000-0000"
    assert cards[-1].about.note == "the chart uses b, which the answer does not contain"


def test_a_pin_as_of_a_moment_shows_the_runs_of_then(database: sa.Engine, measured_home: MeasuredHome) -> None:
    job_id = measured_home.three_arms
    board = dashboards.create(database, "then and now", actor=ADMIN)
    counted = query(database, f"select count(*) as runs from runs where job_id = '{job_id}'")
    between = START + timedelta(seconds=59)
    for moment in (None, between):
        pin(database, board, PinnedFigure("sql", counted, "table", moment))
        pin(database, board, PinnedFigure("results", {"job": (job_id,)}, "throughput", moment))
    now, now_drawn, then, then_drawn = (
        card.figure for card in render_pins.render(pins.pins_on(database, board), "light", "")
    )
    assert now is not None
    assert then is not None
    assert (now.rows["runs"][0], then.rows["runs"][0]) == (18, 2)
    assert now_drawn is not None
    assert then_drawn is not None
    assert {style.arm for style in then_drawn.styles} == {"no draft"}
    assert then_drawn.styles[0] in now_drawn.styles
    with as_of(between):
        assert published_data.published_at() == between


def test_an_empty_page_says_how_to_begin_and_restores_a_dashboard(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = make_home(tmp_path)
    with using_home(empty, monkeypatch):
        assert "names the dashboard 0123456789ab, which does not exist" in words(
            open_page("dashboards", dashboard="0123456789ab")
        )
        app = open_page("dashboards")
        assert "No dashboards yet" in words(app)
        app.text_input(key="dashboards-new-name").set_value(HOSTILE)
        click(app, "Create")
        assert HOSTILE in words(app)
        assert "Nothing is pinned here yet" in words(app)
        with open_engine(empty.app_database_url) as database:
            (board,) = dashboards.all_dashboards(database)
            dashboards.remove(database, board.dashboard_id, actor=ADMIN)
        app = open_page("dashboards", dashboard=board.dashboard_id)
        assert "This dashboard was removed on" in words(app)
        assert "Nothing is pinned here yet" in words(click(app, "Restore it"))


def test_figures_stand_in_order_and_are_moved_captioned_removed_and_brought_back(
    open_page: OpenPage, database: sa.Engine, measured_home: MeasuredHome
) -> None:
    board = dashboards.create(database, HOSTILE, actor=ADMIN)
    arms = query(
        database,
        "-- runs of each arm\nselect arm, count(*) as runs from results group by all",
        ChartSpec("bar", "arm", "runs"),
    )
    first = pin(database, board, PinnedFigure("results", {"job": (measured_home.three_arms,)}, "speedup"), HOSTILE)
    second = pin(database, board, PinnedFigure("sql", arms, "table"))
    pin(database, board, PinnedFigure("sql", arms, "chart"))
    app = open_page("dashboards", dashboard=board)
    shown = words(app)
    assert shown.index("Speed-up by load") < shown.index("Runs of each arm")
    assert shown.count(HOSTILE) == 2  # the name and a caption
    assert (len(app.get("vega_lite_chart")), len(app.dataframe)) == (2, 1)
    app.toggle(key="dashboards-edit").set_value(True).run()
    assert app.button(key=f"up-{first}").disabled
    press(app, f"down-{first}")
    assert [pin.pin_id for pin in pins.pins_on(database, board)][:2] == [second, first]
    app.text_area(key=f"caption-{first}").set_value("why it matters").run()
    app.radio(key=f"as-of-{first}").set_value("This moment").run()
    press(app, f"save-{first}")
    changed = pins.pins_on(database, board)[1]
    assert changed.caption == "why it matters"
    assert changed.shown.as_of is not None
    press(app, f"remove-{first}")
    assert "The pin “Speed-up by load” was removed." in words(app)
    assert len(pins.pins_on(database, board)) == 2
    press(app, "dashboards-undo")
    assert [pin.pin_id for pin in pins.pins_on(database, board)][:2] == [second, first]
    dashboards.create(database, "taken", actor=ADMIN)
    app.text_input(key=f"dashboards-name-{board}").set_value("taken").run()
    assert "a dashboard named 'taken' exists already" in words(app)
    pins.remove(database, first, actor=ADMIN)  # by somebody else, meanwhile
    assert "this pin was removed meanwhile" in words(press(app, f"save-{first}"))


def test_a_card_has_its_own_title_and_may_be_text_alone(
    database: sa.Engine, measured_home: MeasuredHome, open_page: OpenPage
) -> None:
    board = dashboards.create(database, "titled", actor=ADMIN)
    figure = PinnedFigure("results", {"job": (measured_home.three_arms,)}, "speedup")
    pin_id = pin(database, board, figure, pins.caption_of(HOSTILE, "Why it matters"))
    app = open_page("dashboards", dashboard=board)
    assert HOSTILE in words(app)
    assert "Why it matters" in words(app)
    assert "Speed-up by load" not in words(app)
    app.session_state["dashboards-edit"] = True
    click(ran(app.run()), "Add a text card")
    first, second = pins.pins_on(database, board)
    assert (first.pin_id, second.shown.page, second.title, second.text) == (pin_id, "text", "Title", "Text of the card")
    app.text_input(key=f"title-{second.pin_id}").set_value("What this shows")
    app.text_area(key=f"caption-{second.pin_id}").set_value("Three arms")
    press(app, f"save-{second.pin_id}")
    assert "What this shows" in words(app)
    assert pins.pins_on(database, board)[1].caption == "# What this shows\nThree arms"


def test_a_caption_has_a_title_and_a_text_or_either_alone() -> None:
    for title, text in (("", "as before"), ("Monday", "a\nb"), ("Monday", ""), ("", "")):
        made = Pin("", "", PinnedFigure("sql", {}, "table"), pins.caption_of(title, text), START)
        assert (made.title, made.text) == (title, text)


def test_a_card_without_a_study_in_its_link_names_its_numbers(database: sa.Engine, measured_home: MeasuredHome) -> None:
    board = dashboards.create(database, "of what", actor=ADMIN)
    asked = query(database, f"select arm, job_id from results where job_id = '{measured_home.three_arms}'")
    across = {"job": (measured_home.three_arms,), "with": (measured_home.one_repeat,)}
    for pinned in (
        PinnedFigure("home", {}, "newest"),
        PinnedFigure("sql", asked, "table"),
        PinnedFigure("results", across, "throughput"),
    ):
        pin(database, board, pinned)
    of_home, of_query, of_both = (
        card.about.subject for card in render_pins.render(pins.pins_on(database, board), "light", "")
    )
    assert all(subject.endswith(downloads.REFERENCE) for subject in (of_home, of_query, of_both))
    assert "three arms, 20" in of_query
    assert "one repeat, three arms, 20" in of_both


def test_a_card_is_about_the_rows_it_shows_rather_than_the_study_of_its_link(
    database: sa.Engine, measured_home: MeasuredHome
) -> None:
    rows = pd.DataFrame(
        {
            "job_id": [measured_home.three_arms, "a-paper"],
            "origin": ["measured", "published"],
            "source": ["Drafthouse", "a-paper"],
        }
    )
    subject = downloads.provenance_of_view({"job": (measured_home.one_repeat,)}, rows)
    assert "three arms, 20" in subject
    assert subject.endswith(" · published by a-paper")
    assert "one repeat" not in subject
    subject = downloads.provenance_of_view({"query": ("a-query",)}, pd.DataFrame({"arm": ["no draft"]}))
    assert subject.startswith("SQL over 3 studies · reference · ")
    assert subject.endswith(downloads.REFERENCE)


def test_variables_hold_for_all_cards_that_have_them(
    database: sa.Engine, measured_home: MeasuredHome, open_page: OpenPage
) -> None:
    job_id, other = measured_home.three_arms, measured_home.one_repeat
    board = dashboards.create(database, "with variables", actor=ADMIN)
    counted = query(database, "select 1 as one")
    for pinned in (
        PinnedFigure("results", {"job": (job_id,), "metric": ("Output throughput",)}, "throughput"),
        PinnedFigure("explore", {"study": (f"three arms · {job_id}",)}, "explore"),
        PinnedFigure("sql", counted, "table"),
    ):
        pin(database, board, pinned)
    values = {"for_study": f"one repeat · {other}", "for_metric": "Request throughput", "for_load": "c1-n4"}
    shown = [pin.shown.parameters for pin in variables.applied(pins.pins_on(database, board), values)]
    study = (f"one repeat · {other}",)
    assert shown == [
        {"job": study, "metric": ("Request throughput",)},
        {"study": study, "load": ("c1-n4",)},
        {name: list(value) for name, value in counted.items()},
    ]
    app = open_page("dashboards", dashboard=board, for_study=study[0], for_metric="Request throughput")
    assert "Request throughput by load" in words(app)
    assert words(app).count("Not of the study and metric chosen above: this card shows what was pinned.") == 1  # SQL
    full = words(open_page("dashboards", dashboard=board, full="1"))
    assert "stSidebar" in full
    assert "All dashboards" not in full
