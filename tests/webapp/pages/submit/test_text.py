"""The Submit page: the study as text beside the form, and edits that another start replaced."""

from __future__ import annotations

from host.settings import Settings
from jobs.presets import load_preset
from lab.study import Study
from lab.study.parsing import study_to_toml
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.page_text import click, ran, words
from tests.webapp.submit_form import edit_as, field, set_name, shown_study, submitted_jobs, toml, unfold
from webapp.shared.url_params import EDITS


def test_text_and_form_follow_each_other_and_either_is_submitted(
    open_page: OpenPage, settings: Settings, demo: Study
) -> None:
    app = unfold(open_page("submit"), "more")
    field(app, "number_input", "sampling.temperature").set_value(0.5)
    field(app, "text_input", "arms-1-name").set_value("renamed")
    changed = shown_study(set_name(app, "half typed"))
    assert (changed.name, changed.arms[1].name, changed.sampling.temperature) == ("half typed", "renamed", 0.5)
    assert shown_study(app) == changed  # a look at the text leaves every field as it was
    assert toml(edit_as(app, "TOML")).value == study_to_toml(changed)
    ran(toml(app).set_value(study_to_toml(study(name="pasted", repeats=2))).run())
    edit_as(app, "Form")
    assert field(app, "text_input", "name").value == "pasted"
    assert shown_study(app) == study(name="pasted", repeats=2)
    ran(toml(edit_as(app, "TOML")).set_value(study_to_toml(study(name="written"))).run())
    click(app, "Submit study")
    assert [job.study for job in submitted_jobs(settings)] == [study(name="written")]
    (settings.models_dir / "target" / "config.json").unlink()
    ran(toml(app).set_value(study_to_toml(demo)).run())
    if not app.button(key="submit-study").disabled:  # what the form knows of models is some seconds old
        click(app, "Submit study")
    assert "target: the model 'reference' is not prepared yet" in words(app)


def test_a_wrong_text_is_refused_stays_and_comes_back_when_replaced(open_page: OpenPage, demo: Study) -> None:
    app = edit_as(open_page("submit"), "TOML")
    wrong = study_to_toml(demo).replace("max_concurrency", "max_concurency")
    ran(toml(app).set_value(wrong).run())
    assert "did you mean max_concurrency" in words(app)
    assert '<a href="#problem-elsewhere">' in words(app)
    assert app.button(key="submit-study").disabled
    edit_as(app, "Form")
    assert toml(app).value == wrong
    assert "Fix these problems before switching to the form" in words(app)
    click(app, "Start over")
    assert toml(app).value == study_to_toml(demo)
    click(app, "Undo")
    assert toml(app).value == wrong
    again = open_page("submit", **{EDITS: app.query_params[EDITS]})
    assert toml(again).value == wrong
    assert "did you mean max_concurrency" in words(again)


def test_edits_that_another_start_replaced_come_back(open_page: OpenPage) -> None:
    app = set_name(open_page("submit", preset="friday-night"), "mine")
    before = shown_study(app)
    choice = app.selectbox(key="submit-start-choice").value
    click(app, "Start over")
    assert shown_study(app) == load_preset("friday-night")
    assert "Your changes to “mine” were replaced" in words(app)
    click(app, "Undo")
    assert shown_study(app) == before
    assert app.selectbox(key="submit-start-choice").value == choice
    assert "were replaced" not in words(app)
    ran(toml(edit_as(app, "TOML")).set_value(study_to_toml(study(name="pasted"))).run())
    click(edit_as(app, "Form"), "Start over")  # what came from the text counts as an edit too
    assert field(click(app, "Undo"), "text_input", "name").value == "pasted"


def test_a_form_that_nobody_changed_is_replaced_without_a_word(open_page: OpenPage) -> None:
    app = open_page("submit")
    choice = app.selectbox(key="submit-start-choice")
    for name in ("engines", "draft-tokens"):
        (label,) = [option for option in choice.options if option.startswith(f"{name}: ")]
        ran(app.selectbox(key="submit-start-choice").select(label).run())
        assert shown_study(app) == load_preset(name)
        assert "were replaced" not in words(app)
