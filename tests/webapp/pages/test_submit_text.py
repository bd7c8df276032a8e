"""The submit page: the study as text beside the form, and what another start replaced."""

from __future__ import annotations

from jobs.presets import load_preset
from lab.study import Study
from lab.study.parsing import study_to_toml
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.pages.test_submit import (
    click,
    edit_as,
    of,
    ran,
    set_name,
    shown_study,
    submitted,
    toml,
    unfold,
    words,
)
from warehouse.settings import Settings


def test_what_another_start_replaced_comes_back(open_page: OpenPage) -> None:
    app = set_name(open_page("submit", preset="friday-night"), "mine")
    before = shown_study(app)
    app = click(app, "Start over")
    assert shown_study(app).name == "friday-night"
    assert "Your changes to “mine” were replaced" in words(app)
    choice = app.selectbox(key="submit-start-choice")
    app = click(app, "Undo")
    assert shown_study(app) == before
    assert app.selectbox(key="submit-start-choice").value == choice.value
    assert "were replaced" not in words(app)


def test_text_that_another_start_replaced_comes_back_also_where_it_is_no_study(
    open_page: OpenPage, demo: Study
) -> None:
    app = edit_as(open_page("submit"), "TOML")
    wrong = study_to_toml(demo).replace("max_concurrency", "max_concurency")
    ran(toml(app).set_value(wrong).run())
    app = click(app, "Start over")
    assert toml(app).value == study_to_toml(demo)
    app = click(app, "Undo")
    assert toml(app).value == wrong


def test_what_came_from_the_text_counts_as_changed(open_page: OpenPage) -> None:
    app = edit_as(open_page("submit"), "TOML")
    ran(toml(app).set_value(study_to_toml(study(name="pasted"))).run())
    app = click(edit_as(app, "Form"), "Start over")
    assert of(click(app, "Undo"), "text_input", "name").value == "pasted"


def test_a_form_that_nobody_changed_is_replaced_without_a_word(open_page: OpenPage) -> None:
    app = open_page("submit")
    choice = app.selectbox(key="submit-start-choice")
    for name in ("engines", "draft-tokens", "datasets-by-patterns"):
        (label,) = [option for option in choice.options if option.startswith(f"{name}: ")]
        app = ran(app.selectbox(key="submit-start-choice").select(label).run())
        assert shown_study(app) == load_preset(name)
        assert "were replaced" not in words(app)


def test_the_text_changes_the_form_and_the_form_the_text(open_page: OpenPage, demo: Study) -> None:
    app = edit_as(set_name(open_page("submit"), "as text"), "TOML")
    assert toml(app).value == study_to_toml(demo.model_copy(update={"name": "as text"}))
    ran(toml(app).set_value(study_to_toml(study(name="pasted", repeats=2))).run())
    app = edit_as(app, "Form")
    assert of(app, "text_input", "name").value == "pasted"
    assert shown_study(app) == study(name="pasted", repeats=2)


def test_a_look_at_the_text_leaves_every_field_as_it_was(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "more")
    of(app, "number_input", "sampling.temperature").set_value(0.5)
    of(app, "text_input", "arms-1-name").set_value("renamed")
    changed = shown_study(set_name(app, "half typed"))
    assert (changed.name, changed.arms[1].name, changed.sampling.temperature) == ("half typed", "renamed", 0.5)
    assert shown_study(app) == changed


def test_a_study_is_submitted_from_its_text(open_page: OpenPage, settings: Settings) -> None:
    app = edit_as(open_page("submit"), "TOML")
    ran(toml(app).set_value(study_to_toml(study(name="written"))).run())
    click(app, "Submit study")
    assert submitted(settings) == [study(name="written")]


def test_text_that_is_no_study_is_refused_in_sentences_and_stays(open_page: OpenPage, demo: Study) -> None:
    app = edit_as(open_page("submit"), "TOML")
    wrong = study_to_toml(demo).replace("max_concurrency", "max_concurency")
    app = ran(toml(app).set_value(wrong).run())
    assert "did you mean max_concurrency" in words(app)
    assert "Submit study" not in [button.label for button in app.button]
    app = edit_as(app, "Form")
    assert toml(app).value == wrong
    assert "Fix these problems before switching to the form" in words(app)


def test_a_refusal_is_said_under_the_text_too(open_page: OpenPage, settings: Settings) -> None:
    (settings.models_dir / "target" / "config.json").unlink()
    app = click(edit_as(open_page("submit"), "TOML"), "Submit study")
    assert "target: the model 'reference' is not prepared yet" in words(app)
