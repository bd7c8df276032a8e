"""`drafthouse tune`, as a person or a program types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.study.parsing import study_to_toml
from tests.cli.homes import Home
from tests.lab.studies import DRAFT, study
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from tests.workers.homes import Home as WorkersHome
from tests.workers.homes import at_work, new_home

#: Slow enough to be seen to stream on a busy machine.
SLOW, TRIES = {"token-s": 0.02}, 5
LOADS = [{"max_concurrency": load, "num_prompts": 16} for load in (1, 4, 16)]


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, str]:
    """A home with a measured tuning, and its job: the draft pays at 1 and 4 requests at once and not at 16."""
    settings = make_home(tmp_path)
    monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(settings.engines_file))
    return Home(settings.home, 1), measure_study(settings, study(loads=LOADS, tune={"drafted_tokens": [1, 3]}))


def test_a_measured_tuning_is_printed_with_what_to_deploy(tuned: tuple[Home, str]) -> None:
    home, job_id = tuned
    answer = home.ask("tune", job_id)
    assert answer.returncode == 0, answer.stderr
    assert "To deploy: draft scheduled" in answer.stdout
    assert "--speculative-config" in answer.stdout
    assert "that drafts nothing, 16 requests at once: 0.97" in answer.stdout
    assert f"/deploy?job={job_id}" in answer.stdout


def test_its_json_has_the_schedule_and_every_interval(tuned: tuple[Home, str]) -> None:
    home, job_id = tuned
    printed = json.loads(home.ask("tune", job_id, "--json").stdout)
    assert [cell["load"] for cell in printed["best"]] == [1, 4, 16]
    assert printed["best"][0]["low"] <= printed["best"][0]["ratio"] <= printed["best"][0]["high"]
    options = printed["deployed"]["speculation"]["options"]
    assert options["num_speculative_tokens_per_batch_size"] == printed["ranges"]
    assert [cell["load"] for cell in printed["cost_of_nothing"]] == [16]
    assert json.dumps(printed["ranges"]) in printed["command_line"]


@pytest.fixture
def worked(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkersHome]:
    """A home with a worker and an ingester at work on whatever is submitted; its engine is a stand-in."""
    with new_home(tmp_path, migrated) as home:
        monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(home.settings.engines_file))
        with at_work(home):
            yield home


def test_a_study_is_submitted_as_a_tuning_measured_and_told(worked: WorkersHome, tmp_path: Path) -> None:
    """It was a study of fixed arms, two of which are the same draft."""
    look_up = {"method": "ngram", "num_speculative_tokens": 3}
    drafts = [
        {"name": "plain"},
        {"name": "look-up k=3", "speculation": look_up},
        {"name": "look-up k=4", "speculation": look_up | {"num_speculative_tokens": 4}},
    ]
    loads = [{"max_concurrency": 1, "num_prompts": 4}]
    (tmp_path / "mine.toml").write_text(study_to_toml(worked.study(arms=drafts, loads=loads, engine_flags=SLOW)))
    home = Home(worked.settings.home, 1)
    for _ in range(TRIES):
        submitted = home.ask("tune", str(tmp_path / "mine.toml"), "-k", "1", "-k", "3", "--json")
        if submitted.returncode == 0:  # else a busy machine held up each run of an arm
            break
    assert submitted.returncode == 0, submitted.stderr
    answer = json.loads(submitted.stdout)
    assert {setting["arm"] for setting in answer["tried"]} == {"plain", "look-up k=1", "look-up k=3"}
    assert {setting["runs"] for setting in answer["tried"]} != {0}
    again = home.ask("tune", answer["job_id"], "--json")
    assert json.loads(again.stdout)["best"] == answer["best"]


def test_a_study_without_drafts_cannot_be_tuned(tuned: tuple[Home, str], tmp_path: Path) -> None:
    plain = study(arms=[{"name": "no draft"}])
    (tmp_path / "plain.toml").write_text(study_to_toml(plain))
    answer = tuned[0].ask("tune", str(tmp_path / "plain.toml"))
    assert answer.returncode == 2
    assert "at least one arm with speculation is needed" in answer.stderr
    assert DRAFT["method"] not in answer.stderr
