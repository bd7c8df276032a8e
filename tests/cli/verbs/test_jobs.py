"""The verbs of the queue, as a person or a program types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.follow import follow
from lab.study.parsing import study_to_toml
from tests.cli.homes import new_home
from tests.lab.studies import study
from tests.webapp.homes import environment, finish, make_home, running_job


def test_a_waiting_job_is_moved_cancelled_and_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_home(tmp_path)
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    home = new_home(settings.home)
    file = tmp_path / "study.toml"
    file.write_text(study_to_toml(study()), encoding="utf-8")
    job_id = json.loads(home.ask("submit", str(file), "--json").stdout)["job_id"]
    assert home.ask("priority", job_id, "--", "-5").stdout == f"{job_id} has priority -5\n"
    (listed,) = json.loads(home.ask("jobs", "--json").stdout)
    assert (listed["job_id"], listed["priority"], listed["state"]) == (job_id, -5, "queued")
    assert home.ask("cancel", job_id).returncode == 0
    moved = home.ask("priority", job_id, "7")
    assert moved.returncode == 2
    assert moved.stderr == f"drafthouse: job {job_id} is cancelled: only a queued job can be moved\n"
    assert home.ask("retry", job_id, "--all").stdout == f"{job_id} is queued again\n"
    assert home.ask("retry", job_id).returncode == 2


def test_a_failed_run_is_counted_once(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    running_job(settings, study(name="half of them fail"), runs_done=4, runs_failed=2, runs_total=4)
    (line,) = [line for line in new_home(settings.home).ask("jobs").stdout.splitlines() if "half of them fail" in line]
    assert "4/4 (2 failed), measuring · draft · reference/code/16 · c4-n8" in line


def test_a_bar_ends_at_its_total_when_runs_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = make_home(tmp_path)
    job_id = running_job(settings, study(), runs_done=4, runs_failed=2, runs_total=4)

    def end() -> None:
        finish(settings, job_id, "failed", "two runs failed")

    assert follow(settings.app_database_url, job_id, tend=end).state == "failed"
    assert capsys.readouterr().out.startswith("runs 4/4 (2 failed)  measuring")
