"""`drafthouse replicate`: submits what repeats a published experiment, and shows both side by side."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from host.settings import Settings
from jobs.presets import load_preset
from tests.cli.homes import DRAFTHOUSE, REPOSITORY, Home, new_home
from tests.webapp.homes import environment, make_home
from tests.webapp.measured import measure_study
from tests.workers.homes import until

SOURCE = "friday-night-2025-12"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = make_home(tmp_path)
    for name, value in environment(made).items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def home(settings: Settings) -> Home:
    return new_home(settings.home)


def test_the_preset_is_submitted_once_and_waited_for_after_that(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTHOUSE_WORKERS_ELSEWHERE", "true")
    first = home.ask("replicate", SOURCE, "--reference")
    assert first.returncode == 0, first.stderr
    assert f"`drafthouse replicate {SOURCE} --reference` shows both side by side" in first.stdout
    (job,) = json.loads(home.ask("jobs", "--json").stdout)
    assert (job["name"], job["state"]) == ("friday-night (reference)", "queued")
    assert json.loads(home.ask("replicate", SOURCE, "--reference", "--json").stdout)["job_id"] == job["job_id"]
    assert len(json.loads(home.ask("jobs", "--json").stdout)) == 1


def test_json_on_standard_output_is_not_mixed_with_the_progress(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTHOUSE_WORKERS_ELSEWHERE", "true")
    job_id = json.loads(home.ask("replicate", SOURCE, "--reference", "--json").stdout)["job_id"]
    printed, progress = tmp_path / "printed", tmp_path / "progress"
    words = (DRAFTHOUSE, "replicate", SOURCE, "--reference", "--wait", "--json")
    with printed.open("w") as out, progress.open("w") as err:
        waiting = subprocess.Popen(words, cwd=REPOSITORY, env=home.environment, stdout=out, stderr=err)
        try:
            until(lambda: "queued" in printed.read_text() + progress.read_text(), "it follows the job")
        finally:
            home.ask("cancel", job_id)
        assert waiting.wait(600) == 1
    assert printed.read_text() == ""
    assert f"{job_id}: cancelled" in progress.read_text()


def test_once_it_has_run_both_stand_side_by_side_with_what_differs(home: Home, settings: Settings) -> None:
    job_id = measure_study(settings, load_preset("friday-night", reference=True))
    printed = home.ask("replicate", SOURCE, "--reference").stdout
    assert f"{SOURCE} beside {job_id}" in printed
    assert "hardware: RTX PRO 6000 Blackwell Max-Q there, AMD EPYC 7B13 (2 cores) here" in printed
    assert "engine version: 0.12.0 there, 0.32.0+cpu here" in printed
    figures = json.loads(home.ask("replicate", SOURCE, "--reference", "--json").stdout)["figures"]
    assert len(figures) == 9
    (best,) = [compared for compared in figures if compared["figure"]["printed"] == "146"]
    assert best["arms"] == ["EAGLE-3 k=2"]
    assert best["ratio"] == pytest.approx(best["ours"] / 146)


def test_an_experiment_of_a_source_may_be_named(home: Home) -> None:
    answer = home.ask("replicate", "redhat-moe-2026", "--study", "nothing")
    assert answer.returncode == 2
    assert "choose one of three-datasets, tensor-parallel-2, cost, draft-tokens" in answer.stderr


@pytest.mark.parametrize(
    ("source", "sentence"),
    [("nobody", "is not a published source: choose one of friday"), ("practice-2026", "nothing to repeat")],
)
def test_what_cannot_be_repeated_is_one_sentence_and_exit_status_2(home: Home, source: str, sentence: str) -> None:
    assert sentence in home.refusal("replicate", source)
