"""Dashboards: pinned from a figure's menu, shown in order, changed, removed and brought back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta

import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import START, measure_study
from warehouse.app_db import dashboards, pins, saved_views
from warehouse.app_db.engine import app_engine
from warehouse.app_db.pins import PinnedFigure
from warehouse.ingest.service import ingest_all
from warehouse.queries.point_in_time import as_of
from warehouse.settings import Settings
from webapp.charts.custom import Drawn
from webapp.pages.dashboards import render_pins
from webapp.pages.sql.state import Question
from webapp.shared import published_data

HOSTILE = "<b>Monday</b> $x$ :smile: [a](http://b)"


@pytest.fixture
def engine(settings: Settings) -> Iterator[sa.Engine]:
    made = app_engine(settings.app_database_url)
    yield made
    made.dispose()


def words(app: AppTest) -> str:
    kinds = ("title", "subheader", "markdown", "caption", "warning", "info", "error", "success")
    return re.sub(r"[\\\u2060]", "", "\n".join(element.value for kind in kinds for element in getattr(app, kind)))


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception, app.exception
    return app


def query(engine: sa.Engine, sql: str, drawn: Drawn | None = None) -> dict[str, tuple[str, ...]]:
    return {"query": (saved_views.save(engine, "sql", asdict(Question(sql, drawn))),)}


def test_without_a_dashboard_the_page_says_how_to_begin(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    app = open_page("dashboards")
    assert "No dashboards yet" in words(app)
    app.text_input(key="dashboards-new-name").set_value(HOSTILE)
    next(button for button in app.button if button.label == "Create").click().run()
    assert HOSTILE in words(app)
    assert "Nothing is pinned here yet" in words(app)


def test_a_link_to_no_dashboard_or_to_a_removed_one_says_so(
    open_page: OpenPage, settings: Settings, engine: sa.Engine
) -> None:
    ingest_all(settings)
    assert "names the dashboard 0123456789ab, which does not exist" in words(
        open_page("dashboards", dashboard="0123456789ab")
    )
    board = dashboards.create(engine, "gone")
    dashboards.remove(engine, board)
    app = open_page("dashboards", dashboard=board)
    assert "This dashboard was removed on" in words(app)
    next(button for button in app.button if button.label == "Restore it").click().run()
    assert "Nothing is pinned here yet" in words(app)


def test_figures_of_pages_and_of_queries_stand_there_in_order_with_captions_and_what_is_gone_says_so(
    open_page: OpenPage, settings: Settings, engine: sa.Engine
) -> None:
    job_id = measure_study(settings, study())
    board = dashboards.create(engine, HOSTILE)
    asked = query(
        engine,
        "-- runs of each arm\nselect arm, count(*) as runs from results group by all",
        Drawn("bar", "arm", "runs"),
    )
    pins.add(engine, board, PinnedFigure("results", {"job": (job_id,)}, "speedup"), HOSTILE)
    pins.add(engine, board, PinnedFigure("sql", asked, "chart"), "")
    pins.add(engine, board, PinnedFigure("sql", asked, "table"), "")
    pins.add(engine, board, PinnedFigure("results", {"job": ("20200101-000000-0000",)}, "speedup"), "")
    pins.add(engine, board, PinnedFigure("results", {"job": (job_id,), "metric": ("no such",)}, "speedup"), "")
    pins.add(engine, board, PinnedFigure("sql", {"query": ("0123456789ab",)}, "table"), "")
    pins.add(engine, board, PinnedFigure("sql", query(engine, "select no_such from results"), "table"), "")
    pins.add(engine, board, PinnedFigure("sql", query(engine, "select 1 as a", Drawn("bar", "a", "b")), "chart"), "")
    pins.add(engine, board, PinnedFigure("elsewhere", {}, "x"), "")
    app = open_page("dashboards", dashboard=board)
    shown = words(app)
    assert shown.index("Speed-up by load") < shown.index("Runs of each arm")
    assert HOSTILE in shown
    assert len(app.get("vega_lite_chart")) == 2
    assert len(app.dataframe) == 2
    assert shown.count("This figure cannot be shown") == 2
    assert "the query 0123456789ab is not here (any more)" in shown
    assert 'Referenced column "no_such" not found' in shown
    assert "the chart asks for b, which the answer has not (any more)" in shown
    assert "has no page 'elsewhere'" in shown


def test_a_pin_as_of_a_moment_shows_the_runs_of_then(settings: Settings, engine: sa.Engine) -> None:
    job_id = measure_study(settings, study())
    board = dashboards.create(engine, "then and now")
    counted = query(engine, "select count(*) as runs from runs")
    between = START + timedelta(seconds=59)
    for moment in (None, between):
        pins.add(engine, board, PinnedFigure("sql", counted, "table", moment), "")
        pins.add(engine, board, PinnedFigure("results", {"job": (job_id,)}, "throughput", moment), "")
    now, now_drawn, then, then_drawn = (
        each.figure for each in render_pins.render(pins.pins_on(engine, board), "light", "")
    )
    assert now is not None
    assert then is not None
    assert (now.rows["runs"][0], then.rows["runs"][0]) == (4, 2)
    assert now_drawn is not None
    assert then_drawn is not None
    assert {style.arm for style in then_drawn.styles} == {"no draft"}
    assert then_drawn.styles[0] in now_drawn.styles
    with as_of(between):
        assert published_data.published_at() == between


def test_cards_are_moved_captioned_removed_and_brought_back(
    open_page: OpenPage, settings: Settings, engine: sa.Engine
) -> None:
    job_id = measure_study(settings, study())
    board = dashboards.create(engine, "to change")
    first, second = (
        pins.add(engine, board, PinnedFigure("results", {"job": (job_id,)}, figure), "")
        for figure in ("speedup", "acceptance")
    )
    app = open_page("dashboards", dashboard=board)
    app.toggle(key="dashboards-edit").set_value(True).run()
    assert app.button(key=f"up-{first}").disabled
    press(app, f"down-{first}")
    assert [pin.pin_id for pin in pins.pins_on(engine, board)] == [second, first]
    app.text_area(key=f"caption-{first}").set_value("why it matters").run()
    app.radio(key=f"as-of-{first}").set_value("This moment").run()
    press(app, f"save-{first}")
    (_, changed) = pins.pins_on(engine, board)
    assert changed.caption == "why it matters"
    assert changed.shown.as_of is not None
    press(app, f"remove-{first}")
    assert "was removed" in words(app)
    assert len(pins.pins_on(engine, board)) == 1
    press(app, "dashboards-undo")
    assert [pin.pin_id for pin in pins.pins_on(engine, board)] == [second, first]
    name = app.text_input(key=f"dashboards-name-{board}")
    dashboards.create(engine, "taken")
    name.set_value("taken").run()
    assert "a dashboard named 'taken' exists already" in words(app)


def test_a_caption_that_is_changed_while_somebody_removes_the_pin_is_refused_with_a_sentence(
    open_page: OpenPage, settings: Settings, engine: sa.Engine
) -> None:
    job_id = measure_study(settings, study())
    board = dashboards.create(engine, "shared")
    pin = pins.add(engine, board, PinnedFigure("results", {"job": (job_id,)}, "speedup"), "")
    app = open_page("dashboards", dashboard=board)
    app.toggle(key="dashboards-edit").set_value(True).run()
    pins.remove(engine, pin)
    assert "this pin was removed meanwhile" in words(press(app, f"save-{pin}"))
