"""One small study on a stand-in of each release that was tried, and what its version says before a study starts."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import sys
from typing import Any

import pytest

from benchmarks.engine_matrix.known import known
from cli.verbs.measure.plan import _print_plan
from jobs.engines.captures import BASELINE, Capture, captures, numbers, refusal, release
from jobs.engines.captures.table import versions_table
from jobs.engines.relied_on import USES, is_in
from jobs.forecast import plan_document
from jobs.submission import Context, problems, unknown
from jobs.table import Job
from lab.errors import StudyError
from services.doctor import examine
from tests.engine_matrix.stand_in import parsed
from tests.workers.engine_runtime.stand_ins import add_draft, bundles, worked
from tests.workers.homes import REPOSITORY, Home
from warehouse.bundles.run_bundle import Bundle

TRIED = [name for kind, name in captures() if kind == "vllm"]
UNTRIED = "it is measured all the same, and what it does not report is null"
OF_REQUESTS = next(use.without for use in USES["vllm"] if use.name == "per-request-spec-decode-metrics")
ONE_LOAD = [{"max_concurrency": 1, "num_prompts": 4}]
TRIES = 10


def form(value: object) -> object:
    """The keys and types of an event, without its values."""
    if isinstance(value, dict):
        return {key: form(inner) for key, inner in value.items()}
    return [form(inner) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


def behaviour(capture: Capture) -> str:
    """What of a release can change how a study of it is measured: the same text, the same stand-in."""
    passed = {use.name for use in USES["vllm"] if use.what == "flag"} | {"enforce-eager", "max-model-len"}
    takes = {flag: of for flag, of in capture.reported.types.items() if flag in passed}
    pages = {name: answer.status for name, answer in capture.answers.items()}
    arms = {
        name: (arm.known, arm.metrics, sorted({json.dumps(form(event)) for event in arm.events}))
        for name, arm in capture.arms.items()
        if arm.state == "measured"
    }
    return json.dumps([takes, pages, arms])


#: Of releases that behave alike, the newest.
UNLIKE = sorted({behaviour(captures()["vllm", name]): name for name in TRIED}.values(), key=numbers)


def add_release(home: Home, version: str, *, captured: str | None = None) -> None:
    """An environment that says it is this version, and the stand-in of a captured release as its engine `older`."""
    folder = home.folder / f"vllm-{version}"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "python3.11" / "site-packages" / f"vllm-{version}.dist-info").mkdir(parents=True)
    words = (sys.executable, "-m", "tests.engine_matrix.stand_in", captured or release(version))
    for name in ("python", "vllm"):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    table = f'\n[older]\nkind = "vllm"\ncommand = ["{folder}/bin/vllm", "serve"]\n'
    with home.settings.engines_file.open("a", encoding="utf-8") as file:
        file.write(table + f'[older.environment]\nHOME_OF_TEST = "{home.folder}"\n')


def is_of(bundle: Bundle, job: Job) -> bool:
    return bundle.run.job_id == job.job_id


def arms_of(home: Home, capture: Capture, state: str) -> list[dict[str, Any]]:
    """The arms of a capture that came so far."""
    draft = {"model": add_draft(home)}
    more = {"draft_model": draft, "eagle3": draft}
    return [
        {"name": name, "engine": "older"}
        | (
            {"speculation": {"method": name, "num_speculative_tokens": 3} | more.get(name, {})}
            if name != BASELINE
            else {}
        )
        for name, arm in capture.arms.items()
        if arm.state == state
    ]


@pytest.mark.parametrize("tried", UNLIKE)
def test_a_study_of_a_tried_release_knows_what_one_of_the_real_engine_knew(home: Home, tried: str) -> None:
    capture = captures()["vllm", tried]
    add_release(home, capture.version)
    arms = arms_of(home, capture, "measured")
    flags = {"enforce_eager": True, "max_model_len": 1024}
    expected = {arm["name"]: capture.arms[arm["name"]].known for arm in arms}
    for _ in range(TRIES):
        job = worked(home, arms=arms, loads=ONE_LOAD, engine_flags=flags)
        assert (job.state, job.error) == ("done", None)
        measured = {name: bundle for name in expected for bundle in bundles(home, name) if is_of(bundle, job)}
        if {name: known(bundle) for name, bundle in measured.items()} == expected:
            break  # else a busy machine read no gauge in time during a whole window
    for name, bundle in measured.items():
        assert bundle.run.error is None
        assert release(bundle.run.circumstances.engine_version or "") == tried
        assert known(bundle) == expected[name]


@pytest.mark.parametrize("tried", TRIED)
def test_a_stand_in_refuses_an_unknown_flag_in_the_words_of_its_release(
    tried: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = captures()["vllm", tried]
    with pytest.raises(SystemExit) as ended:
        parsed(capture, ["nobody", "--no-such-flag"])
    refused = capture.answers["unknown flag"]
    assert (ended.value.code, capsys.readouterr().err.splitlines()[-1]) == (refused.status, refused.text)


@pytest.mark.parametrize("tried", [name for name in TRIED if "refused" in str(captures()["vllm", name].arms)])
def test_what_a_release_refused_is_refused_before_anything_starts(home: Home, tried: str) -> None:
    capture = captures()["vllm", tried]
    add_release(home, capture.version)
    refused = arms_of(home, capture, "refused")
    arms = [{"name": "plain", "engine": "older", "baseline": True}, *refused]
    study = home.study(arms=arms, loads=ONE_LOAD)
    found = dict(problems(Context(home.settings), study, probe_engines=False))
    assert set(found) == {f"arms[{place}].speculation.method" for place in range(1, len(arms))}
    for place, arm in enumerate(refused, 1):
        sentence = found[f"arms[{place}].speculation.method"]
        assert sentence.startswith(
            f"older {capture.version} lists {arm['name']!r}, but did not start with it when tried"
        )
        assert sentence.endswith(str(capture.arms[arm["name"]].why))
    with pytest.raises(StudyError) as at_submission:
        home.submit(arms=arms, loads=ONE_LOAD)
    assert dict(at_submission.value.problems) == found


def test_a_flag_that_a_release_lacks_is_named_by_a_plan_that_starts_nothing(home: Home) -> None:
    add_release(home, captures()["vllm", TRIED[0]].version)
    study = home.study(arms=[{"name": "a", "engine": "older", "flags": {"enforce_eagre": True}}])
    (sentence,) = (
        text for field, text in problems(Context(home.settings), study, probe_engines=False) if "flags" in field
    )
    assert "did you mean enforce_eager?" in sentence
    assert not (home.settings.home / "engines" / "capabilities").exists()  # nobody asked the engine


def test_a_release_that_nobody_tried_is_measured_all_the_same_and_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = TRIED[-1]
    add_release(home, "9.8.7", captured=newest)
    arms = [{"name": "plain", "engine": "older", "baseline": True}]
    sentences = [text for _, text in unknown(Context(home.settings), home.study(arms=arms, loads=ONE_LOAD))]
    tried = f"tried were {len(TRIED)} releases, {TRIED[0]} to {newest}"
    assert sentences == [f"older 9.8.7 has not been tried with Drafthouse: {UNTRIED}; {tried}"]
    job = worked(home, arms=arms, loads=ONE_LOAD)
    assert (job.state, job.error) == ("done", None)
    monkeypatch.chdir(REPOSITORY)
    (finding,) = (each for each in examine(home.settings) if each.what == "engine older")
    assert "older 9.8.7 has not been tried with Drafthouse" in finding.found


def test_a_plan_says_what_an_older_release_leaves_unknown_of_speculation_alone(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_release(home, "0.28.0")
    ngram = {"method": "ngram", "num_speculative_tokens": 3}
    plain = {"name": "plain", "engine": "older", "baseline": True}
    study = home.study(arms=[plain, {"name": "b", "engine": "older", "speculation": ngram}], loads=ONE_LOAD)
    sentence = f"older 0.28.0 has no --per-request-spec-decode-metrics (since 0.29.0): {OF_REQUESTS}"
    found = unknown(Context(home.settings), study)
    assert found == [("arms[1].engine", sentence)]
    _print_plan(study, plan_document(home.settings, study, [], found))
    assert f"what will stay unknown:\n  arms[1].engine: {sentence}" in capsys.readouterr().out


@pytest.mark.parametrize("tried", TRIED)
def test_what_is_relied_on_was_there_in_each_tried_release_as_declared(tried: str) -> None:
    capture = captures()["vllm", tried]
    speculating = [arm for name, arm in capture.arms.items() if name != BASELINE and arm.state == "measured"]
    names = set().union(*(arm.metrics for arm in capture.arms.values()))
    for use in USES["vllm"]:
        declared = use.since is None or numbers(tried) >= numbers(use.since)
        if use.what == "flag":
            assert (use.name in capture.reported.flags) is declared, use.name
        elif use.what == "metric" and (speculating or "spec_decode" not in use.name):
            assert (use.name in names) is declared, use.name
    asked = "token_ids" in str(capture.arms[BASELINE].events)
    assert asked is is_in(next(use for use in USES["vllm"] if use.name == "return_token_ids"), "vllm", None, tried)
    for arm in speculating:
        said = "speculative_decoding" in str(arm.events)
        assert said is (numbers(tried) >= (0, 29, 0))


def test_another_build_is_refused_only_what_the_configuration_refuses() -> None:
    assert refusal("vllm", "0.14.1+cpu", "ngram") == "AssertionError: spec decode is not supported."
    assert refusal("vllm", "0.14.1", "ngram") is None  # that was the runner for CPUs
    for version in ("0.12.0", "0.13.0", "0.14.1"):
        assert "not supported yet" in (refusal("vllm", version, "draft_model") or "")
    assert refusal("vllm", "0.14.0+cpu", "ngram") is None


def test_captures_hold_nothing_of_the_machine_they_were_made_on() -> None:
    for capture in captures().values():
        text = capture.model_dump_json()
        assert not [part for part in ("site-packages", "/home/", "/root/", str(REPOSITORY)) if part in text]
        assert capture.tried_on <= dt.datetime.now(dt.UTC).date()
    rows = [text.split(" | ") for text in versions_table().splitlines() if text.startswith("| vllm ")]
    named = [version for row in rows for version in row[0].removeprefix("| vllm ").split(", ")]
    assert sorted(named) == sorted(captures()["vllm", tried].version for tried in TRIED)


def test_the_table_says_what_releases_did_with_tools_ranks_and_sleep() -> None:
    said = dict(
        text.removeprefix("- ").split(": ", 1)[::-1] for text in versions_table().splitlines() if text[:1] == "-"
    )
    assert said["a tool call streams"].startswith("0.29.0+cpu to 0.32.0+cpu, ")
    (alone,) = [versions for sentence, versions in said.items() if "CPU id list []" in sentence]
    assert alone == "0.32.0+cpu"
    assert said["two ranks start"].startswith("0.29.0+cpu to 0.31.0+cpu, ")
    (unable,) = [versions for sentence, versions in said.items() if "Sleep mode is not supported" in sentence]
    assert unable.startswith("0.29.0+cpu to 0.32.0+cpu, ")
    assert "'function': {'name': 'add'}" in str(captures()["vllm", "0.32.0"].streams["tool call"])
