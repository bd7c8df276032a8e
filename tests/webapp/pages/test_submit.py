from __future__ import annotations

import json
import re
from typing import Any

from streamlit.testing.v1 import AppTest

from jobs import queue
from jobs.presets import load_preset
from lab.study import Study
from lab.study.arm import METHODS
from lab.study.parsing import study_from_toml
from lab.study.reference_pair import reference_version
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import tell_worker
from warehouse.app_db.engine import app_engine
from warehouse.settings import Settings
from webapp.pages.submit import form_options
from webapp.shared.page_files import page_file


def click(app: AppTest, label: str) -> AppTest:
    (button,) = [found for found in app.button if found.label == label]
    return ran(button.click().run())


def ran(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def of(app: AppTest, kind: str, column: str) -> Any:
    """The widget of one field or one row's column, whichever version of the form is shown."""
    (found,) = [
        widget for widget in getattr(app, kind) if re.fullmatch(rf"submit-\d+-{re.escape(column)}", str(widget.key))
    ]
    return found


def unfold(app: AppTest, part: str, *, opened: bool = True) -> AppTest:
    """Open or close what is folded away: a row's details (`arms-1`), or what most studies leave as it is (`more`)."""
    field = "more-False" if part == "more" else f"{part}-details"
    app.session_state[str(of(app, "text_input", "name").key).replace("-name", f"-{field}")] = opened
    return ran(app.run())


def columns(app: AppTest, kind: str, column: str) -> list[Any]:
    """What a column of a table of the form holds, row by row."""
    pattern = re.compile(rf"submit-\d+-{column.replace('[]', r'-[0-9]+-')}")
    return [widget.value for widget in getattr(app, kind) if pattern.fullmatch(str(widget.key))]


def set_name(app: AppTest, name: str) -> AppTest:
    return ran(of(app, "text_input", "name").set_value(name).run())


def edit_as(app: AppTest, mode: str) -> AppTest:
    return ran(app.segmented_control(key="submit-mode").set_value(mode).run())


def toml(app: AppTest) -> Any:
    (found,) = [area for area in app.text_area if area.label == "The study in TOML"]
    return found


def shown_study(app: AppTest) -> Study:
    """What the form describes, as its text says it."""
    if app.segmented_control(key="submit-mode").value != "TOML":
        edit_as(app, "TOML")
    found = study_from_toml(toml(app).value)
    edit_as(app, "Form")
    return found


def submitted(settings: Settings) -> list[Study]:
    engine = app_engine(settings.app_database_url)
    try:
        return [job.study for job in queue.jobs(engine)]
    finally:
        engine.dispose()


def words(app: AppTest) -> str:
    kinds = ("markdown", "caption", "header", "error", "info", "warning", "success")
    return re.sub(r"[\\\u2060]", "", "\n".join(element.value for kind in kinds for element in getattr(app, kind)))


def test_the_form_begins_as_the_demo_study_and_says_what_it_will_take(open_page: OpenPage, demo: Study) -> None:
    app = open_page("submit")
    assert "arms × workloads × loads × repeats" in words(app)
    runs = len(demo.arms) * len(demo.workloads) * len(demo.loads) * demo.repeats
    assert str(runs) in [header.value for header in app.header]
    assert shown_study(app) == demo


def test_submitting_queues_the_study_of_the_form(open_page: OpenPage, settings: Settings, demo: Study) -> None:
    app = set_name(open_page("submit"), "my study")
    click(app, "Submit study")
    assert submitted(settings) == [demo.model_copy(update={"name": "my study"})]
    assert "Submitted as" in words(app)


def test_a_study_is_submitted_with_the_priority_that_was_set(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    app.number_input(key="submit-priority").set_value(7)
    click(app, "Submit study")
    engine = app_engine(settings.app_database_url)
    (job,) = queue.jobs(engine)
    engine.dispose()
    assert job.priority == 7


def test_a_double_click_submits_once(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    click(app, "Submit study")
    click(app, "Submit again")
    assert len(submitted(settings)) == 1


def test_a_wrong_field_is_said_and_nothing_can_be_submitted(open_page: OpenPage, settings: Settings) -> None:
    app = set_name(open_page("submit"), "")
    assert "1 problem to fix" in words(app)
    assert "Submit study" not in [button.label for button in app.button]
    assert "to fix" not in words(set_name(app, "mended"))
    assert submitted(settings) == []


def test_what_this_host_does_not_have_is_said_beside_its_field(open_page: OpenPage, settings: Settings) -> None:
    (settings.models_dir / "target" / "config.json").unlink()
    app = click(open_page("submit"), "Submit study")
    assert "the model 'reference' is not prepared yet" in words(app)
    assert submitted(settings) == []


def test_a_dataset_that_is_missing_is_refused_with_where_to_get_it(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    app = ran(of(app, "selectbox", "workloads-0-dataset").set_value("spec_bench").run())
    app = ran(of(app, "selectbox", "workloads-0-category").set_value(None).run())
    click(app, "Submit study")
    assert "https://github.com/hemingkx/Spec-Bench" in words(app)
    assert submitted(settings) == []


def test_a_preset_fills_the_form_and_its_small_version_too(open_page: OpenPage) -> None:
    app = open_page("submit", preset="friday-night")
    assert shown_study(app) == load_preset("friday-night")
    assert "RTX PRO 6000" in words(app)
    app = ran(app.toggle(key="submit-reference").set_value(True).run())
    assert shown_study(app) == load_preset("friday-night", reference=True)


def test_a_link_to_a_small_version_opens_that(open_page: OpenPage) -> None:
    app = open_page("submit", preset="draft-tokens", reference="true")
    assert shown_study(app) == load_preset("draft-tokens", reference=True)


def test_another_start_is_chosen_from_the_list(open_page: OpenPage) -> None:
    app = open_page("submit")
    choice = app.selectbox(key="submit-start-choice")
    (label,) = [option for option in choice.options if option.startswith("engines: ")]
    ran(choice.select(label).run())
    assert shown_study(app) == load_preset("engines")


def test_an_earlier_study_can_be_changed_and_submitted_again(open_page: OpenPage, settings: Settings) -> None:
    job_id = queue.submit(settings, study(name="of yesterday", repeats=2))
    app = set_name(open_page("submit", from_job=job_id), "of today")
    click(app, "Submit study")
    assert submitted(settings)[0] == study(name="of today", repeats=2)


def test_a_study_is_found_by_the_beginning_of_its_digest(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study(name="of yesterday"))
    app = open_page("submit", study=study(name="of yesterday").digest()[:12])
    assert shown_study(app) == study(name="of yesterday")


def test_a_link_to_what_is_not_here_says_so_and_shows_the_demo(open_page: OpenPage, demo: Study) -> None:
    app = open_page("submit", preset="friday-nigth")
    assert "did you mean friday-night" in words(app)
    assert shown_study(app) == demo


def test_starting_over_forgets_what_was_changed(open_page: OpenPage, demo: Study) -> None:
    app = set_name(open_page("submit"), "changed")
    assert shown_study(click(app, "Start over")) == demo


def test_rows_are_added_copied_and_removed(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "arms-1")
    app.button(key=of(app, "button", "arms-1-copy").key).click()
    app = ran(app.run())
    names = columns(app, "text_input", "arms[]name")
    assert names == ["no draft", "draft model k=3", "draft model k=3 copy", "n-gram k=3", "EAGLE-3 k=3"]
    app = ran(of(app, "button", "arms-3-remove").click().run())
    assert columns(app, "text_input", "arms[]name") == names[:-1]
    app = click(app, "Add a load")
    assert [load.max_concurrency for load in shown_study(app).loads] == [1, 4, 16, 1]


def test_a_pattern_adds_its_loads_spelt_out(open_page: OpenPage) -> None:
    app = open_page("submit")
    menu = app.menu_button(key="add-pattern")
    ran(menu.click("burstiness_low").run())
    ran(app.menu_button(key="add-pattern").click("concurrency_sweep").run())
    loads = shown_study(app).loads[3:]
    assert [load.max_concurrency for load in loads] == [32, 1, 5, 25, 50, 100, 200]
    assert (loads[0].label, loads[0].request_rate_rps, loads[0].burstiness) == ("burstiness_low", 2.0, 4.0)


def test_an_arm_takes_flags_a_configuration_file_and_an_environment(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "arms-1")
    of(app, "text_area", "arms-1-flags").set_value("max-num-seqs = 8")
    of(app, "text_area", "arms-1-config").set_value("kv-cache-dtype: fp8")
    of(app, "text_area", "arms-1-environment").set_value("OMP_NUM_THREADS=1")
    of(app, "text_area", "arms-1-options").set_value("draft_tensor_parallel_size = 1")
    app = unfold(ran(app.run()), "arms-1", opened=False)
    assert "max-num-seqs = 8 · configuration file of 1 line · 1 variable · draft_tensor_parallel_size = 1" in words(app)
    arm = shown_study(app).arms[1]
    assert arm.flags == {"max-num-seqs": 8}
    assert arm.config == {"kv-cache-dtype": "fp8"}
    assert arm.environment == {"OMP_NUM_THREADS": "1"}
    assert arm.speculation is not None
    assert arm.speculation.options == {"draft_tensor_parallel_size": 1}


def test_what_is_folded_away_keeps_what_was_typed(open_page: OpenPage, demo: Study) -> None:
    app = unfold(unfold(open_page("submit"), "more"), "workloads-0")
    of(app, "number_input", "sampling.temperature").set_value(0.5)
    of(app, "toggle", "workloads-0-ignore_eos").set_value(False)
    app = unfold(unfold(ran(app.run()), "more", opened=False), "workloads-0", opened=False)
    app = set_name(app, "half typed")
    app.switch_page(str(page_file("jobs"))).run()
    app = ran(app.switch_page(str(page_file("submit"))).run())
    changed = shown_study(app)
    assert (changed.sampling.temperature, changed.workloads[0].ignore_eos) == (0.5, False)
    assert changed.workloads[1:] == demo.workloads[1:]
    app = unfold(unfold(app, "more"), "workloads-0")
    assert of(app, "number_input", "sampling.temperature").value == 0.5
    assert of(app, "toggle", "workloads-0-ignore_eos").value is False


def test_a_server_that_runs_already_is_an_arm_with_an_address(open_page: OpenPage) -> None:
    app = open_page("submit")
    app = ran(of(app, "selectbox", "arms-0-engine").set_value("endpoint").run())
    of(app, "text_input", "arms-0-base_url").set_value("http://127.0.0.1:9000")
    of(app, "text_input", "arms-0-api_key").set_value("LAB")
    server = shown_study(ran(app.run())).arms[0].server
    assert server is not None
    assert (server.base_url, server.api_key) == ("http://127.0.0.1:9000", "LAB")


def test_methods_are_those_of_the_chosen_engine_where_a_worker_has_told(
    open_page: OpenPage, settings: Settings
) -> None:
    app = open_page("submit")
    assert set(METHODS) < set(of(app, "selectbox", "arms-1-method").options)
    tell_worker(settings, methods=("draft_model", "suffix"))
    form_options.engines.clear()  # as after some seconds
    app = open_page("submit")
    offered = of(app, "selectbox", "arms-1-method").options
    assert offered == ["none", "draft_model", "suffix"]
    assert "vllm" in of(app, "selectbox", "arms-1-engine").options


def test_the_baseline_is_one_choice(open_page: OpenPage) -> None:
    app = open_page("submit")
    of(app, "selectbox", "arms-baseline").set_value(2)
    assert [arm.baseline for arm in shown_study(ran(app.run())).arms] == [False, False, True, False]


def test_what_was_typed_is_still_there_after_a_look_at_another_page(open_page: OpenPage) -> None:
    app = set_name(open_page("submit"), "half typed")
    app.switch_page(str(page_file("jobs"))).run()
    app.switch_page(str(page_file("submit"))).run()
    assert of(app, "text_input", "name").value == "half typed"


def upload(app: AppTest, name: str, *lines: dict[str, object]) -> AppTest:
    app.session_state["datasets"] = True
    ran(app.run()).text_input(key="dataset-name").set_value(name)
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    app.file_uploader(key="dataset-file").upload("mine.jsonl", content, "application/jsonl")
    return click(ran(app.run()), "Check and add")


def test_an_uploaded_dataset_is_checked_and_offered(open_page: OpenPage) -> None:
    rows: list[dict[str, object]] = [{"prompt": f"question {place}", "category": "ours"} for place in range(20)]
    app = upload(open_page("submit"), "my_prompts", *rows)
    assert "my_prompts is registered with 20 rows" in words(app)
    app = ran(of(app, "selectbox", "workloads-0-dataset").set_value("my_prompts").run())
    assert of(app, "selectbox", "workloads-0-category").options[0] == "ours"


def test_an_uploaded_dataset_with_a_wrong_row_is_refused_with_its_line(open_page: OpenPage) -> None:
    app = upload(open_page("submit"), "my_prompts", {"prompt": "fine"}, {"promt": "not"})
    assert "mine.jsonl, line 2" in words(app)
    assert "drafthouse-upload-" not in words(app)


def test_without_a_job_table_the_page_says_which_command_makes_one(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("submit")
    (settings.home / "app.sqlite").unlink()
    click(app, "Submit study")
    assert "drafthouse migrate" in "".join(warning.value for warning in app.warning).replace("\\", "")


def test_the_small_version_of_an_earlier_study_is_made_of_it(open_page: OpenPage, settings: Settings) -> None:
    large = study(name="large", target=str(settings.models_dir / "target"))
    job_id = queue.submit(settings, large)
    app = open_page("submit", from_job=job_id, reference="true")
    assert shown_study(app) == reference_version(submitted(settings)[0])
