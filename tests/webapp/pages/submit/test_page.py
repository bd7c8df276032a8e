"""The Submit page: the study as a form, where it starts from, and submitting it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from jobs import queue
from jobs.presets import load_preset
from lab.study import Sessions, Study
from lab.study.methods import METHODS
from lab.study.reference_pair import reference_version
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import tell_worker
from tests.webapp.page_text import click, ran, words
from tests.webapp.submit_form import (
    column_values,
    edit_as,
    field,
    follow_link,
    set_name,
    set_value,
    set_values,
    shown_study,
    submitted_jobs,
    unfold,
)
from webapp.pages.submit import arms, form_options, study_fields
from webapp.pages.submit.start import Start
from webapp.shared.url_params import EDITS, page_file
from webapp.shared.verdicts.answers import FROM_JOB


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        ({}, ""),
        ({"flags": "max-num-seqs = 8\ndtype = 1"}, "max-num-seqs = 8, dtype = 1"),
        ({"flags": "\n".join(["a-flag-with-a-long-name = 1"] * 4)}, "4 flags"),
        (
            {"config": "a: 1\nb: 2", "environment": "X=1", "speculation.options": "y = 2"},
            "configuration file of 2 lines · 1 variable · y = 2",
        ),
    ],
)
def test_what_an_arms_closed_details_hold_is_summed_up(row: dict[str, str], summary: str) -> None:
    assert arms.details_summary(row) == summary


def test_a_pattern_is_listed_with_its_parameters() -> None:
    assert study_fields.pattern_label("burstiness_low", {}).startswith(
        "burstiness_low: 2 requests/s, burstiness 4, 32 at once"
    )
    assert study_fields.pattern_label("concurrency_sweep", {}) == "concurrency_sweep: 1, 5, 25, 50, 100, 200 at once"


def test_a_start_is_a_link() -> None:
    assert Start("preset", "engines", reference=True).query == {"preset": "engines", "reference": "true"}
    assert Start(FROM_JOB, "x", decides="ttft_p50_ms").query == {"from_job": "x", "decide": "ttft_p50_ms"}
    assert Start(FROM_JOB, "x", tunes="a/b/16").query == {"from_job": "x", "tune": "a/b/16"}


def test_methods_are_those_of_the_engine_where_a_worker_has_reported_them(settings: Settings) -> None:
    assert form_options.methods("vllm") == list(METHODS)
    tell_worker(settings, methods=("suffix", "draft_model", "of_its_own"))
    form_options.engines.clear()  # as after some seconds
    assert form_options.methods("vllm") == ["draft_model", "suffix", "of_its_own"]
    assert form_options.methods("another") == list(METHODS)
    assert {"vllm", "endpoint"} <= set(form_options.engine_names())
    assert form_options.is_endpoint("endpoint")
    assert not form_options.is_endpoint("vllm")


def lines(*rows: Mapping[str, str]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_dataset_is_checked_registered_and_then_offered(settings: Settings) -> None:
    assert settings.models_dir.exists()
    assert (
        form_options.register("my_prompts", "mine.jsonl", BytesIO(lines({"prompt": "fine"}, {"promt": "not"})))[0]
        is False
    )
    rows = [{"prompt": f"question {place}", "category": "ours"} for place in range(20)]
    outcome = form_options.register("my_prompts", "mine.jsonl", BytesIO(lines(*rows)))
    assert outcome[0] is True
    assert outcome[1].replace("\\", "").startswith("my_prompts is registered with 20 rows")
    assert form_options.categories("my_prompts") == ["ours"]
    labels = form_options.dataset_labels()
    assert labels["my_prompts"] == "my_prompts (registered)"
    assert labels["spec_bench"] == "spec_bench (not on this host yet)"
    assert list(labels).index("my_prompts") < list(labels).index("spec_bench")


def test_the_form_begins_as_the_demo_and_is_submitted_once(
    open_page: OpenPage, settings: Settings, demo: Study
) -> None:
    app = open_page("submit")
    runs = len(demo.arms) * len(demo.workloads) * len(demo.loads) * demo.repeats
    assert f"**{runs} runs**" in words(app)
    assert shown_study(app) == demo
    set_name(app, "my study").number_input(key="submit-priority").set_value(7)
    click(app, "Submit study")
    (job,) = submitted_jobs(settings)
    assert (job.study, job.priority) == (demo.model_copy(update={"name": "my study"}), 7)
    assert (submit_button(app).label, submit_button(app).disabled) == ("Submitted", True)
    click(app, "Submit it once more")  # at once: still the same click
    assert submitted_jobs(settings) == [job]
    set_name(app, "another")
    assert (submit_button(app).label, submit_button(app).disabled) == ("Submit study", False)


def submit_button(app: AppTest) -> Any:
    return app.button(key="submit-study")


def test_what_is_wrong_or_missing_here_is_said_and_nothing_is_submitted(
    open_page: OpenPage, settings: Settings
) -> None:
    app = set_name(open_page("submit"), "")
    assert "1 problem to fix before this study can be submitted:" in words(app)
    assert '<a href="#problem-name">Name</a>: ' in words(app)
    assert 'id="problem-name"' in words(app)
    assert submit_button(app).disabled
    assert "to fix" not in words(set_name(app, "fixed"))
    assert not submit_button(app).disabled
    set_value(app, "text_input", "target", "./nothing")
    assert '<a href="#problem-target">Target model</a>: ' in words(app)
    assert "nothing does not hold a model" in words(app)
    set_values(app, ("text_input", "arms-0-name", ""), ("text_input", "arms-2-speculation.model", "./nowhere"))
    for problem in ("Target model</a>: /", "Arm 1, name</a>: ", "Arm 3, draft model</a>: /"):
        assert f">{problem}" in words(app)  # each is found beside the others
    mended = {"arms-2-speculation.model": "reference-eagle3", "arms-0-name": "no draft", "target": "reference"}
    set_values(app, *(("text_input", column, value) for column, value in mended.items()))
    model = settings.models_dir / "target" / "config.json"
    model.unlink()
    assert "the model 'reference' is not prepared yet" in words(click(app, "Submit study"))
    model.write_text("{}", encoding="utf-8")
    assert field(app, "selectbox", "workloads-0-category").value == "code"
    set_value(app, "selectbox", "workloads-0-dataset", "spec_bench")
    assert field(app, "selectbox", "workloads-0-category").value is None  # it has none of that name
    assert '<a href="#problem-workloads-0">Workload 1</a>: dataset spec_bench is not on this host' in words(app)
    assert submitted_jobs(settings) == []
    click(app, "Start over")
    (settings.home / "app.sqlite").unlink()
    assert "drafthouse migrate" in words(click(app, "Submit study"))


def test_a_link_or_the_list_says_what_the_form_starts_from(
    open_page: OpenPage, settings: Settings, demo: Study
) -> None:
    large = study(name="of yesterday", repeats=2, target=str(settings.models_dir / "target"))
    job_id = queue.submit(settings, large, actor=ADMIN)
    (stored,) = [job.study for job in submitted_jobs(settings)]
    app = open_page("submit", preset="friday-nigth")
    assert "did you mean friday-night" in words(app)
    assert shown_study(app) == demo
    follow_link(app, preset="friday-night")
    assert "RTX PRO 6000" in words(app)
    assert shown_study(app) == load_preset("friday-night")
    ran(app.toggle(key="submit-reference").set_value(True).run())
    assert shown_study(app) == load_preset("friday-night", reference=True)
    assert shown_study(follow_link(app, preset="draft-tokens", reference="true")) == load_preset(
        "draft-tokens", reference=True
    )
    choice = app.selectbox(key="submit-start-choice")
    ran(choice.select(next(option for option in choice.options if option.startswith("engines: "))).run())
    assert shown_study(follow_link(app, preset="engines")) == load_preset("engines")
    assert shown_study(follow_link(app, study=stored.digest()[:12])) == stored
    assert shown_study(follow_link(app, from_job=job_id, reference="true")) == reference_version(stored)
    click(set_name(follow_link(app, from_job=job_id), "of today"), "Submit study")
    assert submitted_jobs(settings)[0].study == stored.model_copy(update={"name": "of today"})


def test_what_a_running_server_cannot_be_given_is_cleared_by_a_click(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "arms-1")
    field(app, "text_area", "arms-1-flags").set_value("max-num-seqs = 8")
    set_values(app, *(("selectbox", f"arms-{arm}-engine", "endpoint") for arm in range(3)))
    set_values(app, *(("text_input", f"arms-{arm}-server.base_url", "http://127.0.0.1:9000") for arm in range(3)))
    refused = "engine flags do not apply to a running server: clear them"
    assert words(app).count(refused) > 1
    click(app, "Clear what does not apply to a running server")
    assert refused not in words(app)
    assert "Clear what does not" not in words(app)
    assert not submit_button(app).disabled
    assert (shown_study(app).engine_flags, shown_study(app).arms[1].flags) == ({}, {})


def test_the_beginning_of_a_datasets_name_is_enough(open_page: OpenPage) -> None:
    app = open_page("submit")
    dataset = field(app, "selectbox", "workloads-0-dataset")
    dataset.options.append("spec_b")  # as typed
    ran(dataset.set_value("spec_b").run())
    assert field(app, "selectbox", "workloads-0-dataset").value == "spec_bench_sample"  # which is here already
    assert field(app, "selectbox", "workloads-0-category").value is None


def test_repeats_are_not_asked_for_beside_a_budget(open_page: OpenPage) -> None:
    app = open_page("submit")
    assert not field(app, "number_input", "repeats").disabled
    set_value(app, "text_input", "budget", "8 min")
    assert field(app, "number_input", "repeats").disabled
    assert "repeats fit into its budget" in words(app) or "too short for the 2 repeats" in words(app)


def test_rows_are_added_copied_and_removed_and_one_is_the_baseline(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "arms-1")
    ran(field(app, "button", "arms-1-copy").click().run())
    names = column_values(app, "text_input", "arms[]name")
    assert names == ["no draft", "draft model k=3", "draft model k=3 copy", "EAGLE-3 k=3"]
    ran(field(app, "button", "arms-1-remove").click().run())
    assert column_values(app, "text_input", "arms[]name") == ["no draft", "draft model k=3 copy", "EAGLE-3 k=3"]
    set_value(app, "selectbox", "arms-baseline", 2)
    click(app, "Add an arm")
    added = 4
    assert [field(app, "text_input", f"arms-{added}-{name}").value for name in ("name", "speculation.model")] == [
        "EAGLE-3 k=5",
        "reference-eagle3",
    ]
    set_value(app, "number_input", f"arms-{added}-speculation.num_speculative_tokens", 2)
    set_value(app, "selectbox", f"arms-{added}-speculation.method", "ngram")
    assert field(app, "text_input", f"arms-{added}-name").value == "n-gram k=2"
    set_value(app, "text_input", f"arms-{added}-name", "mine")
    set_value(app, "number_input", f"arms-{added}-speculation.num_speculative_tokens", 4)
    assert field(app, "text_input", f"arms-{added}-name").value == "mine"
    assert "to fix" not in words(app)
    assert app.menu_button(key="add-load").options[0] == "next: 16 at once, 16 prompts"
    for load in ("next", "burstiness_low", "concurrency_sweep"):
        ran(app.menu_button(key="add-load").click(load).run())
    ran(field(unfold(app, "loads-0"), "button", "loads-0-drop").click().run())
    shown = shown_study(app)
    assert [arm.baseline for arm in shown.arms] == [False, False, True, False]
    assert [load.max_concurrency for load in shown.loads] == [2, 8, 16, 32, 1, 5, 25, 50, 100, 200]
    pattern = shown.loads[3]
    assert (pattern.label, pattern.request_rate_rps, pattern.burstiness) == ("burstiness_low", 2.0, 4.0)


def test_an_arm_takes_texts_and_a_server_and_datasets_are_uploaded(open_page: OpenPage, settings: Settings) -> None:
    app = unfold(open_page("submit"), "arms-1")
    field(app, "text_area", "arms-1-flags").set_value("max-num-seqs = 8")
    field(app, "text_area", "arms-1-config").set_value("kv-cache-dtype: fp8")
    field(app, "text_area", "arms-1-environment").set_value("OMP_NUM_THREADS=1")
    field(app, "text_area", "arms-1-speculation.options").set_value("draft_tensor_parallel_size = 1")
    unfold(ran(app.run()), "arms-1", opened=False)
    assert "max-num-seqs = 8 · configuration file of 1 line · 1 variable" in words(app)
    set_value(app, "selectbox", "arms-0-engine", "endpoint")
    field(app, "text_input", "arms-0-server.base_url").set_value("http://127.0.0.1:9000")
    field(app, "text_input", "arms-0-server.api_key").set_value("LAB")
    server, drafted = (arm for arm in shown_study(ran(app.run())).arms[:2])
    assert server.server is not None
    assert (server.server.base_url, server.server.api_key) == ("http://127.0.0.1:9000", "LAB")
    assert (drafted.flags, drafted.config) == ({"max-num-seqs": 8}, {"kv-cache-dtype": "fp8"})
    assert drafted.environment == {"OMP_NUM_THREADS": "1"}
    assert drafted.speculation is not None
    assert drafted.speculation.options == {"draft_tensor_parallel_size": 1}
    upload(app, lines({"prompt": "fine"}, {"promt": "not"}))
    assert "mine.jsonl, line 2" in words(app)
    assert "drafthouse-upload-" not in words(app)
    upload(app, lines(*({"prompt": f"question {place}", "category": "ours"} for place in range(20))))
    assert "my_prompts is registered with 20 rows" in words(app)
    set_value(app, "selectbox", "workloads-0-dataset", "my_prompts")
    assert field(app, "selectbox", "workloads-0-category").options[0] == "ours"
    tell_worker(settings, methods=("draft_model", "suffix"))
    form_options.engines.clear()  # as after some seconds
    assert field(ran(app.run()), "selectbox", "arms-1-speculation.method").options == ["none", "draft_model", "suffix"]


def upload(app: AppTest, content: bytes) -> None:
    app.session_state["datasets"] = True
    ran(app.run()).text_input(key="dataset-name").set_value("my_prompts")
    app.file_uploader[0].upload("mine.jsonl", content, "application/jsonl")
    click(ran(app.run()), "Check and add")


def test_what_was_typed_survives_a_reload_without_its_secrets(open_page: OpenPage, demo: Study) -> None:
    app = unfold(open_page("submit"), "arms-1")
    assert EDITS not in app.query_params
    field(app, "text_area", "arms-1-environment").set_value("OMP_NUM_THREADS=1\nHF_TOKEN=hf_abcdefghijklmnop")
    set_name(app, "half typed")
    click(app, "Add an arm")
    edits = app.query_params[EDITS]
    again = open_page("submit", **{EDITS: edits})
    assert field(again, "text_input", "name").value == "half typed"
    assert column_values(again, "text_input", "arms[]name")[-1] == "EAGLE-3 k=5"
    assert shown_study(again).arms[1].environment == {"OMP_NUM_THREADS": "1"}
    assert [button.disabled for button in again.button if button.label == "Start over"] == [False]
    click(again, "Start over")
    assert EDITS not in again.query_params
    assert [button.disabled for button in again.button if button.label == "Start over"] == [True]
    assert shown_study(again) == demo
    assert shown_study(open_page("submit", **{EDITS: "nobodys"})) == demo


def test_what_was_typed_stays_while_folded_away_and_on_another_page(open_page: OpenPage, demo: Study) -> None:
    app = unfold(unfold(open_page("submit"), "more"), "workloads-0")
    field(app, "number_input", "sampling.temperature").set_value(0.5)
    field(app, "toggle", "workloads-0-ignore_eos").set_value(False)
    unfold(unfold(ran(app.run()), "more", opened=False), "workloads-0", opened=False)
    set_name(app, "half typed")
    app.switch_page(str(page_file("jobs"))).run()
    ran(app.switch_page(str(page_file("submit"))).run())
    assert field(app, "text_input", "name").value == "half typed"
    changed = shown_study(app)
    assert (changed.sampling.temperature, changed.workloads[0].ignore_eos) == (0.5, False)
    assert changed.workloads[1:] == demo.workloads[1:]
    unfold(unfold(app, "more"), "workloads-0")
    assert field(app, "number_input", "sampling.temperature").value == 0.5
    assert field(app, "toggle", "workloads-0-ignore_eos").value is False


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        ({"sessions.think": "fixed", "sessions.think_s": 2.0, "sessions.max_turns": 3, "ignore_eos": True}, ""),
        (
            {
                "sessions.answers": "own",
                "sessions.max_turns": 8,
                "sessions.think": "exponential",
                "sessions.think_s": 4.0,
                "score": "number",
            },
            "sessions with the model's own answers · at most 8 turns · pauses of 4 s in the mean · scored: number",
        ),
        (
            {"sessions.answers": "recorded", "sessions.think": "fixed", "sessions.think_s": 1.5},
            "sessions with the recorded answers · pauses of 1.5 s",
        ),
        (
            {"sessions.answers": "own", "sessions.think": "none", "sessions.think_s": 1.5},
            "sessions with the model's own answers · no pauses",
        ),
        ({"own_output_lengths": True, "ignore_eos": False}, "each prompt's own output length · answers may end early"),
    ],
)
def test_what_a_workloads_closed_details_change_is_summed_up(row: dict[str, Any], summary: str) -> None:
    assert study_fields.workload_summary(row) == summary


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        ({}, "each when another has ended"),
        (
            {"label": "bursts", "request_rate_rps": 2.0, "burstiness": 0.2, "arrivals": "gamma"},
            "bursts · 2 requests/s, burstiness 0.2",
        ),
        ({"request_rate_rps": 2.5, "burstiness": 1.0, "arrivals": "constant"}, "2.5 requests/s, at a constant rate"),
        ({"request_rate_rps": 1.0, "arrivals": "ramp", "ramp_to_rps": 8.0}, "1 to 8 requests/s"),
        ({"arrivals": "trace", "duration_s": 60.0}, "as recorded in the dataset · ends after 60 s"),
        (
            {"request_rate_rps": 8.0, "find": "concurrency", "stop_on_error_share": 0.05},
            "8 requests/s · searches for the greatest concurrency within the SLO · stops if over 5 % fail",
        ),
        ({"find": "rate"}, "searches for the greatest rate within the SLO"),
    ],
)
def test_what_a_loads_closed_details_hold_is_summed_up(row: dict[str, Any], summary: str) -> None:
    assert study_fields.load_summary(row) == summary


def test_the_length_of_prompts_is_asked_for_where_they_are_generated(open_page: OpenPage) -> None:
    app = open_page("submit")
    assert not column_values(app, "number_input", "workloads[]input_tokens")
    set_value(app, "selectbox", "workloads-0-dataset", "random")
    set_value(app, "number_input", "workloads-0-input_tokens", 100)
    assert shown_study(app).workloads[0].input_tokens == 100
    edit_as(app, "Form")
    set_value(app, "selectbox", "workloads-0-dataset", "reference")
    assert field(app, "number_input", "workloads-0-input_tokens").value == 100  # to be emptied


def test_sessions_scores_and_thinking_need_no_text(open_page: OpenPage) -> None:
    app = unfold(unfold(open_page("submit"), "workloads-0"), "more")
    set_value(app, "selectbox", "workloads-0-sessions.answers", "own")
    set_value(app, "number_input", "workloads-0-sessions.max_turns", 6)
    set_value(app, "selectbox", "workloads-0-sessions.think", "exponential")
    assert field(app, "number_input", "workloads-0-sessions.think_s").value == 2.0
    set_values(
        app,
        ("number_input", "workloads-0-sessions.think_s", 4.0),
        ("selectbox", "workloads-0-score", "number"),
        ("text_input", "reasoning-parser", "qwen3"),
        ("selectbox", "thinking", "false"),
    )
    made = shown_study(app)
    assert made.workloads[0].sessions == Sessions(max_turns=6, think="exponential", think_s=4.0)
    assert made.workloads[0].score == "number"
    thinks = dict.fromkeys(study_fields.THINKING_FLAGS, "false")
    assert thinks | {"reasoning-parser": "qwen3"} == {
        name: value for name, value in made.engine_flags.items() if name in {*thinks, "reasoning-parser"}
    }
    app = unfold(unfold(app, "workloads-0"), "more")
    set_value(app, "selectbox", "thinking", "")
    set_value(app, "selectbox", "workloads-0-sessions.think", "none")
    made = shown_study(app)
    assert made.workloads[0].sessions == Sessions(max_turns=6, think="none")
    assert not set(thinks) & set(made.engine_flags)


def test_options_are_offered_by_method_and_each_has_a_field_of_its_kind(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "arms-1")
    assert not any("suffix" in str(option) for option in field(app, "selectbox", "arms-1-add_option").options)
    suffix = {option.name for option in form_options.speculation_options("vllm", "suffix")}
    assert suffix > {"suffix_decoding_max_cached_requests"}
    for name in ("enforce_eager", "rejection_sample_method", "enforce_eager"):
        set_value(app, "selectbox", "arms-1-add_option", name)
    text = field(app, "text_area", "arms-1-speculation.options").value
    assert text == 'enforce_eager = true\nrejection_sample_method = "block"'  # once each
    for name in ("num_speculative_tokens_per_batch_size", "max_model_len"):
        set_value(app, "selectbox", "arms-1-add_option", name)
    batches = "arms-1-option-num_speculative_tokens_per_batch_size"
    assert field(app, "text_input", batches).value == "1-4: 3, 5-512: 0"
    set_values(
        app,
        ("text_input", batches, "1-8: 3, 9-32: 1, 33-512: 0"),
        ("selectbox", "arms-1-option-rejection_sample_method", "standard"),
        ("toggle", "arms-1-option-enforce_eager", False),
        ("number_input", "arms-1-option-max_model_len", 512),
    )
    drafted = shown_study(app).arms[1].speculation
    assert drafted is not None
    assert drafted.options == {
        "num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 32, 1], [33, 512, 0]],
        "rejection_sample_method": "standard",
        "enforce_eager": False,
        "max_model_len": 512,
    }
    app = unfold(app, "arms-1")
    ran(field(app, "button", "arms-1-remove-enforce_eager").click().run())
    set_value(app, "text_input", batches, "3 at first")
    assert (
        'num_speculative_tokens_per_batch_size = "3 at first"'
        in field(app, "text_area", "arms-1-speculation.options").value
    )
    assert "enforce_eager" not in field(app, "text_area", "arms-1-speculation.options").value


def test_a_draft_model_known_for_the_target_becomes_an_arm(open_page: OpenPage) -> None:
    app = set_value(open_page("submit"), "text_input", "target", "openai/gpt-oss-120b")
    assert "set the endpoint to chat" in words(app)
    known = field(app, "selectbox", "known-draft")
    assert "EAGLE-3: RedHatAI/gpt-oss-120b-speculator.eagle3 (needs vLLM 0.17.2 or newer)" in known.options
    ran(known.select_index(0).run())
    arm = shown_study(app).arms[-1]
    assert arm.name == "gpt-oss-120b-Eagle3-short-context k=3"
    assert arm.speculation is not None
    assert (arm.speculation.method, arm.speculation.model) == ("eagle3", "nvidia/gpt-oss-120b-Eagle3-short-context")


def test_a_draft_model_that_is_longer_than_its_field_is_named_whole_once(open_page: OpenPage) -> None:
    app = set_value(open_page("submit"), "text_input", "target", "openai/gpt-oss-120b")
    short, long = (f"nvidia/gpt-oss-120b-Eagle3-{length}-context" for length in ("short", "long"))
    set_value(app, "text_input", "arms-2-speculation.model", short)
    set_value(app, "selectbox", "arms-1-speculation.method", "eagle3")
    for first, named in ((long, [long, short]), (short, [short]), ("reference-eagle3", [short])):
        set_value(app, "text_input", "arms-1-speculation.model", first)
        shown = [caption.value.replace("\\", "") for caption in app.caption if caption.value.startswith("nvidia")]
        assert shown == named
