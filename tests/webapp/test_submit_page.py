from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from lab.study import Study
from lab.study_text import study_from_toml, study_to_toml
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from warehouse.database import app_engine
from warehouse.settings import Settings
from webapp.study_editor import DEMO_FILE
from workers import queue


def field(app: AppTest, kind: str, label: str) -> object:
    (found,) = [widget for widget in getattr(app, kind) if widget.label == label]
    return found


def click(app: AppTest, label: str) -> AppTest:
    (button,) = [found for found in app.button if found.label == label]
    return button.click().run()


def set_name(app: AppTest, name: str) -> AppTest:
    (found,) = [widget for widget in app.text_input if widget.label == "Name"]
    return found.set_value(name).run()


def submitted(settings: Settings) -> list[Study]:
    engine = app_engine(settings)
    try:
        return [job.study for job in queue.jobs(engine)]
    finally:
        engine.dispose()


def words(app: AppTest) -> str:
    shown = [
        element.value for kind in ("markdown", "caption", "header", "error", "info") for element in getattr(app, kind)
    ]
    return re.sub(r"\\", "", "\n".join(shown))


@pytest.fixture
def demo() -> Study:
    return study_from_toml(DEMO_FILE.read_text(encoding="utf-8"))


def test_the_form_begins_as_the_demo_study_and_says_what_it_will_take(open_page: OpenPage, demo: Study) -> None:
    app = open_page("submit")
    assert app.code[0].value == study_to_toml(demo).strip()
    said = words(app)
    runs = len(demo.arms) * len(demo.workloads) * len(demo.loads) * demo.repeats
    assert "arms × workloads × loads × repeats" in said
    assert str(runs) in [header.value for header in app.header]


def test_submitting_queues_the_study_of_the_form(open_page: OpenPage, settings: Settings, demo: Study) -> None:
    app = set_name(open_page("submit"), "my study")
    click(app, "Submit study")
    assert not app.exception
    assert submitted(settings) == [demo.model_copy(update={"name": "my study"})]
    assert "Submitted as" in words(app)


def test_a_double_click_submits_once(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    click(app, "Submit study")
    click(app, "Submit again")
    assert len(submitted(settings)) == 1


def test_a_wrong_field_is_said_and_nothing_can_be_submitted(open_page: OpenPage, settings: Settings) -> None:
    app = set_name(open_page("submit"), "")
    assert "String should have at least 1 character" in words(app) or "should have at least 1 character" in words(app)
    assert "1 thing to mend" in words(app)
    assert "Submit study" not in [button.label for button in app.button]
    assert "to mend" not in words(set_name(app, "mended"))
    assert submitted(settings) == []


def test_what_this_host_does_not_have_is_said_beside_its_field(open_page: OpenPage, settings: Settings) -> None:
    (settings.models_dir / "target" / "config.json").unlink()
    app = click(open_page("submit"), "Submit study")
    assert "the model 'reference' is not prepared yet" in words(app)
    assert submitted(settings) == []


def test_a_pasted_study_fills_the_form(open_page: OpenPage) -> None:
    app = open_page("submit")
    (paste,) = [area for area in app.text_area if area.label == "Paste a study"]
    paste.set_value(study_to_toml(study(name="pasted", repeats=2)))
    click(app, "Fill the form")
    assert app.code[0].value == study_to_toml(study(name="pasted", repeats=2)).strip()


def test_a_pasted_study_that_is_wrong_is_refused_in_sentences(open_page: OpenPage, demo: Study) -> None:
    app = open_page("submit")
    (paste,) = [area for area in app.text_area if area.label == "Paste a study"]
    paste.set_value(study_to_toml(demo).replace("repeats", "repeat") + "\nrepeat = 0\n")
    click(app, "Fill the form")
    assert app.error
    assert app.code[0].value == study_to_toml(demo).strip()


def test_what_was_typed_is_still_there_after_a_look_at_another_page(open_page: OpenPage) -> None:
    app = set_name(open_page("submit"), "half typed")
    app.switch_page("views/jobs.py").run()
    app.switch_page("views/submit.py").run()
    (name,) = [widget.value for widget in app.text_input if widget.label == "Name"]
    assert name == "half typed"


def test_without_a_job_table_the_page_says_which_command_makes_one(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    (settings.home / "app.sqlite").unlink()
    click(app, "Submit study")
    assert not app.exception
    assert "drafthouse migrate" in "".join(warning.value for warning in app.warning).replace("\\", "")
