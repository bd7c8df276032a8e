"""The SQL page: a reader's own query, its answer, its chart, its name and its link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pandas as pd
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from lab.errors import QueryError
from tests.actors import ADMIN, VIEWER
from tests.webapp.conftest import MeasuredHome, OpenPage, using_home
from tests.webapp.page_text import click, ran, words
from tests.webapp.submit_form import follow_link
from warehouse.app_db import saved_views
from warehouse.sandbox import query_limits
from warehouse.sandbox.runner import SqlResult, run_sql
from webapp.charts.custom import ChartSpec
from webapp.charts.custom_columns import drawable
from webapp.charts.theme import INKS
from webapp.pages.sql import data, figures, state
from webapp.pages.sql.state import EXAMPLES, Query
from webapp.shared import published_data


@pytest.fixture
def settings(measured_home: MeasuredHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    with using_home(measured_home.settings, monkeypatch):
        yield measured_home.settings


def write(app: AppTest, sql: str) -> AppTest:
    """As Ctrl+Enter does."""
    return ran(app.text_area(key="sql-text").set_value(sql).run())


def link_of(app: AppTest) -> str:
    query = app.query_params["query"]
    return query if isinstance(query, str) else query[0]


@pytest.mark.usefixtures("settings")
def test_a_query_waits_for_others_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTHOUSE_SQL_TIMEOUT_S", "0.1")
    published_data.settings.cache_clear()
    with ExitStack() as others:
        for number in range(query_limits.MOST):
            others.enter_context(query_limits.QUERY_LIMITS.running(f"visitor {number}", 1.0))
        with pytest.raises(QueryError, match=r"other queries are running: try again in a moment"):
            data.answer("SELECT 1 AS one")
    monkeypatch.setenv("DRAFTHOUSE_SQL_TIMEOUT_S", "600")
    published_data.settings.cache_clear()
    assert len(data.answer("SELECT 1 AS one").frame) == 1


@pytest.mark.usefixtures("settings")
def test_arms_have_the_colours_that_they_have_on_other_pages(measured_home: MeasuredHome) -> None:
    how = ChartSpec("bar", "arm", "runs", "arm")
    scales = []
    for names in (["draft", "no draft"], ["draft", "of another study"]):
        figure = figures.chart(pd.DataFrame({"arm": names, "runs": [1, 2]}), how, "Runs", "light")
        scales.append(figure.panels[0][1].to_dict()["encoding"]["color"]["scale"])
    baseline, (blue, orange, *_) = INKS["light"].baseline, INKS["light"].arms
    assert published_data.arms(measured_home.three_arms) == {
        "no draft": ("none", None),
        "draft": ("draft_model", 3),
        "n-gram": ("ngram", 2),
    }
    assert scales == [
        {"domain": ["draft", "no draft"], "range": [blue, baseline]},
        {"domain": ["draft", "of another study"], "range": [blue, orange]},
    ]


def test_a_chart_without_its_column_or_without_rows_is_a_note() -> None:
    frame, spec = pd.DataFrame({"a": [1], "b": [2]}), ChartSpec("bar", "a", "gone")
    assert figures.chart(frame, spec, "t", "light").note == "the chart uses gone, which the answer does not contain"
    empty = figures.chart(frame.head(0), ChartSpec("bar", "a", "b"), "t", "light")
    assert (empty.note, empty.panels) == ("the answer has no rows", ())


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("sql", "title"),
    [
        ("select 3 as saved", "Saved with another chart"),
        (EXAMPLES["The slowest requests"].sql, "The slowest requests"),
        ("-- runs of each arm\nselect 1", "Runs of each arm"),
        ("select 1", "Query 0123456789ab"),
    ],
)
def test_a_query_is_named_by_its_name_example_comment_or_id(sql: str, title: str) -> None:
    saved = state.save(Query("select 3 as saved", ChartSpec("bar", "saved", "saved")))
    saved_views.name_view(published_data.engine(), state.PAGE, "Saved with another chart", saved, actor=ADMIN)
    try:
        assert figures.title_of(sql, "0123456789ab") == title
    finally:
        saved_views.remove_name(published_data.engine(), state.PAGE, "Saved with another chart", actor=ADMIN)


@pytest.mark.usefixtures("settings")
def test_a_saved_query_returns_with_its_chart_and_others_are_refused() -> None:
    query = Query("select 1 as a, 2 as b", ChartSpec("bar", "a", "b"))
    view_id = state.save(query)
    assert state.saved(view_id) == query
    chart, table = figures.figures({"query": (view_id,)}, "light")
    assert (chart.note, table.note) == ("b by a", "1 row")
    with pytest.raises(QueryError, match="the query 0123456789ab does not exist"):
        figures.figures({"query": ("0123456789ab",)}, "light")


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_is_answered_and_can_be_drawn_as_it_says(settings: Settings, example: Query) -> None:
    frame = run_sql(settings, example.sql).table.to_pandas()
    if example.chart is not None:
        assert not frame.empty
        assert figures.chart(frame, example.chart, "t", "light").panels


def test_an_answer_of_very_many_values_is_cut_and_says_so() -> None:
    wide = SqlResult(pa.table({f"c{number}": [True] * 3000 for number in range(500)}))
    shown = data._within_values(wide)
    assert (shown.table.num_rows, shown.left_out[:35]) == (1000, "only the first 1,000 rows are shown")
    assert data._within_values(SqlResult(wide.table.slice(0, 1000))).left_out == ""


def test_lists_and_structs_have_no_place_on_an_axis(settings: Settings) -> None:
    frame = run_sql(settings, "select 1 as a, [1, 2] as b, {'x': 1} as c, now() as d, 'e' as e").table.to_pandas()
    assert drawable(frame) == ["a", "d", "e"]


def test_a_first_visit_shows_an_example_with_answer_chart_and_tables(open_page: OpenPage) -> None:
    app = open_page("sql")
    assert app.text_area(key="sql-text").value == next(iter(EXAMPLES.values())).sql
    (answer,) = app.dataframe
    assert {"study_name", "workload_label", "concurrency", "arm", "lowest", "highest"} <= set(answer.value.columns)
    assert len(set(answer.value["study_name"])) == 1
    assert any(caption.value.endswith("; rounded here, exact in the downloads") for caption in app.caption)
    assert app.get("vega_lite_chart")
    assert "query" not in app.query_params
    tables = {table.label.partition(" ")[0] for table in app.expander}
    assert {"`results`", "`requests`"} <= tables
    assert "`alembic_version`" not in tables
    assert "- `output_tok_per_s` :gray[DOUBLE]" not in words(app)
    app.session_state["sql-table-results"] = app.session_state["sql-table-requests"] = True
    shown = words(app.run())
    assert "- `output_tok_per_s` :gray[DOUBLE]" in shown
    assert "- `chunk_s` :gray[DOUBLE[]]" in shown


def test_the_link_of_a_query_shows_its_answer_and_chart_again(open_page: OpenPage) -> None:
    sql = "select unnest([1, 2]) as a, unnest([3, 4]) as b, unnest(['p', 'q']) as c"
    app = open_page("sql", query="0123456789ab")
    assert "names the query 0123456789ab, which does not exist" in words(app)
    app = write(app, sql)
    assert "does not contain" not in words(app)
    for label, value in (("Mark", "point"), ("x", "b"), ("y", "a"), ("Colour", "c")):
        ran(next(box for box in app.selectbox if box.label == label).select(value).run())
    again = open_page("sql", query=link_of(app))
    assert again.text_area(key="sql-text").value == sql
    assert again.dataframe[0].value.to_dict("list") == {"a": [1, 2], "b": [3, 4], "c": ["p", "q"]}
    chosen = {box.label: box.value for box in again.selectbox}
    assert {"Mark": "point", "x": "b", "y": "a", "Colour": "c"}.items() <= chosen.items()


def test_sql_in_the_history_is_no_markup(open_page: OpenPage) -> None:
    sql = "select 1 as one -- ```\n-- [sign in](https://example.org)"
    app = write(write(open_page("sql"), sql), "select 2 as two")
    earlier = [box.help for box in app.button if str(box.key).startswith("sql-history-")]
    assert f"````sql\n{sql}\n````" in earlier


def test_mistakes_are_explained_and_a_saved_query_is_found_and_deleted(open_page: OpenPage) -> None:
    app = write(open_page("sql"), "select output_tok from results")
    assert 'Referenced column "output_tok" not found' in words(app)
    line, caret = app.code[0].value.split("\n")
    assert line[caret.index("^") :].startswith("output_tok")
    assert app.text_area(key="sql-text").value == "select output_tok from results"
    assert "DROP" in words(write(app, "drop table runs"))
    write(app, next(iter(EXAMPLES.values())).sql.replace("'measured'", "'nothing'"))
    assert "A chart needs at least one row" in words(app)
    assert "Write a SELECT statement above" in words(write(app, "  "))
    assert "a name has 1 to 80 characters" in words(click(app, "Save under this name"))
    earlier = [box.label for box in app.button if str(box.key).startswith("sql-history-")]
    assert [label.replace("\\", "") for label in earlier[1:3]] == ["drop table runs", "select output_tok from results"]
    ran(app.button(key="sql-history-2").click().run())
    assert app.text_area(key="sql-text").value == "select output_tok from results"
    app = write(app, "select 1 as one, 2 as two")
    app.text_input(key="sql-name").set_value("small one").run()
    click(app, "Save under this name")
    other = open_page("sql")
    ran(next(box for box in other.selectbox if box.label == "Saved queries").select("small one").run())
    assert other.text_area(key="sql-text").value == "select 1 as one, 2 as two"
    click(other, "Delete the saved name")
    assert next(box for box in other.selectbox if box.label == "Saved queries").options == []
    assert other.text_area(key="sql-text").value == "select 1 as one, 2 as two"


@pytest.mark.usefixtures("settings")
def test_the_audit_table_is_for_administrators_and_in_no_shared_figure(open_page: OpenPage) -> None:
    asked = "SELECT action, subject FROM audit ORDER BY audit_id DESC LIMIT 1"
    app = write(open_page("sql"), asked)
    assert list(app.dataframe[0].value.columns) == ["action", "subject"]
    assert "its answers cannot be pinned" in words(app)
    assert not [button for button in app.button if button.key and button.key.startswith("pin-")]
    with pytest.raises(QueryError, match="audit does not exist"):
        data.answer(asked)
    assert data.audit_answer(asked, VIEWER) is None


def test_parameters_of_a_query_have_fields_and_stay_in_its_link(settings: Settings, open_page: OpenPage) -> None:
    app = write(open_page("sql"), "SELECT count(*) AS runs FROM results WHERE arm = $arm AND repeat = $repeat -- $no")
    assert "Give a value for $arm, $repeat above." in words(app)
    ran(app.text_input(key="sql-parameter-arm").set_value("no draft").run())
    app = ran(app.text_input(key="sql-parameter-repeat").set_value("0").run())
    assert app.dataframe[0].value["runs"].tolist() != [0]
    again = open_page("sql", query=link_of(app))
    assert again.text_input(key="sql-parameter-arm").value == "no draft"
    assert again.dataframe[0].value.equals(app.dataframe[0].value)
    with pytest.raises(QueryError, match=r"give a value for \$b"):
        run_sql(settings, "SELECT $a || $b", parameters={"a": "1"})
    assert run_sql(settings, "SELECT $a", parameters={"a": "x'; DROP", "other": ""}).rows() == [["x'; DROP"]]


def test_a_table_is_browsed_by_its_values_and_the_link_has_them(settings: Settings, open_page: OpenPage) -> None:
    chosen = {"table": "results", "counted": "arm", "is": "arm=no draft"}
    app = open_page("sql", **chosen)
    rows = app.dataframe[0].value
    assert set(rows["arm"]) == {"no draft"}
    (pills,) = app.get("button_group")
    assert f"no draft ({len(rows)})" in [option.content for option in pills.proto.options]
    app = click(app, "Edit as SQL")
    assert (
        app.text_area(key="sql-text").value
        == """SELECT * FROM "results" WHERE "arm"::VARCHAR = 'no draft' LIMIT 1000"""
    )
    assert "table" not in app.query_params
    app = open_page("sql", table="no such")
    assert app.text_area(key="sql-text")
    assert "This link names the table no such, which does not exist." in words(app)


def test_the_way_back_leads_to_what_was_browsed_before(open_page: OpenPage) -> None:
    app = open_page("sql", table="results", counted="arm", **{"is": "arm=no draft"})
    app.multiselect(key="browse-facets").select("status").run()
    assert app.query_params["counted"] == ["arm", "status"]
    app = follow_link(app, table="findings", counted="severity", **{"is": "arm=no draft"})
    assert app.multiselect(key="browse-facets").value == ["severity"]
    assert "This link filters by a column that does not exist: arm=no draft." in words(app)
    app = follow_link(app, table="results", counted="arm", **{"is": "arm=draft"})
    assert set(app.dataframe[0].value["arm"]) == {"draft"}
    assert app.pills(key="browse-results-arm").value == "draft"
