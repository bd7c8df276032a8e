"""The menu of a study on its pages: notes, tags, hiding, and deleting with what depends on it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from host.settings import Settings
from jobs import curation
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, ran, words
from warehouse.app_db import dashboards, pins
from warehouse.app_db.engine import open_engine
from warehouse.ingest.service import ingest_all


def with_menu(app: AppTest, job_id: str) -> AppTest:
    app.session_state[f"study-menu-{job_id}"] = True
    return ran(app.run())


def test_a_study_is_renamed_and_noted_where_its_results_are(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(name="mine"))
    app = with_menu(open_page("results", job=job_id), job_id)
    next(box for box in app.text_input if box.label == "Name").set_value("ours")
    next(area for area in app.text_area if area.label == "Note").set_value("second *fan* broken")
    next(box for box in app.multiselect if box.label == "Tags").set_value([])
    click(app, "Save")
    ingest_all(settings)
    shown = open_page("results", job=job_id)
    assert "second *fan* broken" in words(shown)
    assert shown.selectbox(key="job").value == f"ours · {job_id}"
    jobs = open_page("jobs", job=f"mine · {job_id}")  # an old link
    assert "second *fan* broken" in words(jobs)


def test_a_list_of_hidden_and_tagged_jobs_has_a_link(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, study(name="another"))
    job_id = measure_study(settings, study(name="mine"))
    with open_engine(settings.app_database_url) as database:
        curation.change(database, job_id, actor=ADMIN, name=None, tags=["nightly"], note="", hidden=True)
    app = open_page("jobs", tag="nightly", hidden="true")
    listed = next(frame.value for frame in app.dataframe if "submitted" in frame.value)
    assert listed["name"].tolist() == ["mine"]
    app = ran(app.toggle(key="hidden").set_value(False).run())
    assert "hidden" not in app.query_params
    assert "No job is like that." in words(app)
    assert "The tag gone in this link does not exist" in words(open_page("jobs", tag="gone"))


def test_deleting_names_what_depends_on_it_and_a_click_restores_it(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, study(name="another"))
    job_id = measure_study(settings, study(name="mine"))
    with open_engine(settings.app_database_url) as database:
        board = dashboards.create(database, "Weekly", actor=ADMIN)
        pins.add(database, board, pins.PinnedFigure("results", {"job": (job_id,)}, "speedup"), "", actor=ADMIN)
    app = with_menu(open_page("jobs", job=job_id), job_id)
    assert "Needed by:\n- 1 pin on the dashboard Weekly" in words(app)
    app = click(app, "Delete anyway")
    assert f"mine ({job_id}) is deleted." in words(app)
    ingest_all(settings)
    assert "was deleted by" in words(open_page("results", job=job_id))
    assert "Deleted: 1 study" in [expander.label for expander in open_page("jobs").expander]
    app = click(open_page("results", job=job_id), "Restore")
    ingest_all(settings)
    assert "was deleted by" not in words(ran(app.run()))
    assert "No results yet" not in words(open_page("results", job=job_id))
