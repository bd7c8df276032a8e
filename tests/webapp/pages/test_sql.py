"""The SQL page: a question of the reader's own, its answer, its chart, its name and its link."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from warehouse.app_db import saved_views
from warehouse.app_db.engine import app_engine
from warehouse.ingest.service import ingest_all
from warehouse.sandbox.runner import run_sql
from warehouse.settings import Settings
from webapp.charts import custom
from webapp.charts.theme import INKS
from webapp.pages.sql import data as sql_data
from webapp.pages.sql import figures
from webapp.pages.sql.examples import EXAMPLES
from webapp.shared import published_data


def words(app: AppTest) -> str:
    kinds = ("markdown", "caption", "warning", "info", "error")
    return re.sub(r"[\\\u2060]", "", "\n".join(element.value for kind in kinds for element in getattr(app, kind)))


def write(app: AppTest, sql: str) -> AppTest:
    """As Ctrl+Enter does."""
    app.text_area(key="sql-text").set_value(sql).run()
    assert not app.exception, app.exception
    return app


def link_of(app: AppTest) -> str:
    found = app.query_params["query"]
    return found if isinstance(found, str) else found[0]


def press(app: AppTest, label: str) -> AppTest:
    next(found for found in app.button if found.label == label).click().run()
    assert not app.exception, app.exception
    return app


def test_a_first_visit_shows_an_example_with_its_answer_and_its_chart(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, study())
    app = open_page("sql")
    assert app.text_area(key="sql-text").value == EXAMPLES[0].sql
    (answer,) = app.dataframe
    assert list(answer.value.columns) == ["arm", "concurrency", "output_tok_per_s", "runs"]
    assert app.get("vega_lite_chart")
    assert "query" not in app.query_params


def test_a_question_waits_for_others_only_so_long_and_then_says_so(
    open_page: OpenPage, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure_study(settings, study())
    monkeypatch.setenv("DRAFTHOUSE_SQL_TIMEOUT_S", "0.1")
    published_data.settings.cache_clear()
    with ExitStack() as others:
        for _ in range(sql_data.MOST_AT_ONCE):
            others.enter_context(sql_data.PLACES)
        app = open_page("sql")
        assert "other questions are being answered: ask again in a moment" in words(app)
    monkeypatch.delenv("DRAFTHOUSE_SQL_TIMEOUT_S")
    published_data.settings.cache_clear()
    assert len(write(app, "SELECT 1 AS one").dataframe) == 1


def test_arms_have_the_colours_that_they_have_on_other_pages(settings: Settings) -> None:
    job_id = measure_study(settings, study())
    how = custom.Drawn("bar", "arm", "runs", "arm")
    scales = []
    for names in (["draft", "no draft"], ["draft", "of another study"]):
        figure = figures.chart(pd.DataFrame({"arm": names, "runs": [1, 2]}), how, "Runs", "light")
        scales.append(figure.panels[0][1].to_dict()["encoding"]["color"].get("scale"))
    baseline = INKS["light"].baseline
    assert published_data.arms(job_id) == ["no draft", "draft"]
    assert scales == [{"domain": ["no draft", "draft"], "range": [baseline, INKS["light"].arms[0]]}, None]


def test_what_is_typed_is_answered_and_has_a_link_that_shows_it_again(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, study())
    app = write(open_page("sql"), "select 6 * 7 as answer, 'x' as letter")
    (answer,) = app.dataframe
    assert answer.value.to_dict("records") == [{"answer": 42, "letter": "x"}]
    link = link_of(app)
    again = open_page("sql", query=link)
    assert again.text_area(key="sql-text").value == "select 6 * 7 as answer, 'x' as letter"
    assert again.dataframe[0].value.to_dict("records") == [{"answer": 42, "letter": "x"}]


def test_a_link_that_leads_nowhere_is_said(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    assert "asks for the query 0123456789ab, which is not here" in words(open_page("sql", query="0123456789ab"))


def test_a_mistake_is_answered_in_duckdbs_words_and_what_was_typed_stays(
    open_page: OpenPage, settings: Settings
) -> None:
    ingest_all(settings)
    app = write(open_page("sql"), "select output_tok from results")
    assert 'Referenced column "output_tok" not found' in words(app)
    assert app.text_area(key="sql-text").value == "select output_tok from results"
    assert "is only read here: DROP is not allowed" in words(write(app, "drop table runs"))
    assert "Write a SELECT above" in words(write(app, "  "))


def test_a_chart_is_put_together_from_columns_and_stays_in_the_link(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    app = write(open_page("sql"), "select unnest([1, 2]) as a, unnest([3, 4]) as b, unnest(['p', 'q']) as c")
    for label, value in (("Mark", "point"), ("x", "b"), ("y", "a"), ("Colour", "c")):
        next(box for box in app.selectbox if box.label == label).select(value).run()
    link = link_of(app)
    again = open_page("sql", query=link)
    chosen = {box.label: box.value for box in again.selectbox}
    assert {"Mark": "point", "x": "b", "y": "a", "Colour": "c"}.items() <= chosen.items()


def test_a_chart_of_columns_that_are_gone_says_so(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    assert "asks for concurrency, output_tok_per_s, arm, which the answer has not" in words(
        write(open_page("sql"), "select 1 as a, 2 as b")
    )


def test_a_query_is_saved_under_a_name_found_again_and_forgotten(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    app = write(open_page("sql"), "select 1 as one, 2 as two")
    app.text_input(key="sql-name").set_value("small one").run()
    press(app, "Save under this name")
    other = open_page("sql")
    next(box for box in other.selectbox if box.label == "Saved queries").select("small one").run()
    assert other.text_area(key="sql-text").value == "select 1 as one, 2 as two"
    press(other, "Forget the name")
    assert next(box for box in other.selectbox if box.label == "Saved queries").disabled
    assert other.text_area(key="sql-text").value == "select 1 as one, 2 as two"


def test_a_name_that_is_none_is_refused_with_a_sentence(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    assert "a name has 1 to 80 letters" in words(press(open_page("sql"), "Save under this name"))


def test_the_tables_and_their_columns_stand_beside_the_editor(open_page: OpenPage, settings: Settings) -> None:
    ingest_all(settings)
    app = open_page("sql")
    labels = [table.label.partition(" ")[0] for table in app.expander]
    assert {"`results`", "`requests`"} <= set(labels)
    assert "- `output_tok_per_s` :gray[DOUBLE]" not in words(app)
    app.session_state["sql-table-results"] = app.session_state["sql-table-requests"] = True
    shown = words(app.run())
    assert "- `output_tok_per_s` :gray[DOUBLE]" in shown
    assert "- `chunk_s` :gray[DOUBLE[]]" in shown


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.title for example in EXAMPLES])
def test_every_example_is_answered_and_can_be_drawn_as_it_says(settings: Settings, example: object) -> None:
    measure_study(settings, study(), failing="draft")
    assert example in EXAMPLES
    (found,) = [each for each in EXAMPLES if each == example]
    frame = run_sql(settings, found.sql).table.to_pandas()
    if found.drawn is not None:
        assert set(found.drawn.columns) <= set(custom.drawable(frame))
        custom.chart(frame, found.drawn).to_dict()


def test_lists_and_structs_have_no_place_on_an_axis(settings: Settings) -> None:
    ingest_all(settings)
    frame = run_sql(settings, "select 1 as a, [1, 2] as b, {'x': 1} as c, now() as d, 'e' as e").table.to_pandas()
    assert custom.drawable(frame) == ["a", "d", "e"]


def test_the_same_state_has_the_same_link_and_pages_do_not_mix(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    one = saved_views.save(engine, "sql", {"a": 1, "b": 2})
    assert saved_views.save(engine, "sql", {"b": 2, "a": 1}) == one
    assert saved_views.save(engine, "explore", {"a": 1, "b": 2}) != one
    assert saved_views.load(engine, "sql", one) == {"a": 1, "b": 2}
    assert saved_views.load(engine, "explore", one) is None
    engine.dispose()
