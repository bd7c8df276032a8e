"""The verbs of the queue, as a person or a program types them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from cli.follow import all_there, follow, follow_to_results
from cli.here import Here
from host.settings import Settings
from jobs import queue
from jobs.fleet.worker_registry import record, register_worker, store_engines
from lab.study.parsing import study_to_toml
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.cli.homes import new_home
from tests.lab.studies import study
from tests.webapp.homes import add_ended_jobs, environment, failed_job, finish, make_home, running_job
from tests.webapp.measured import measure_study, write_run
from warehouse.app_db.engine import open_engine
from warehouse.ingest.service import ingest_all


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
    assert "greater than or equal to 1" in home.ask("logs", job_id, "--lines", "0").stderr
    assert home.ask("cancel", job_id).returncode == 0
    moved = home.ask("priority", job_id, "7")
    assert moved.returncode == 2
    assert moved.stderr == f"drafthouse: job {job_id} is cancelled: only a queued job can be moved\n"
    assert home.ask("retry", job_id, "--all").stdout == f"{job_id} is queued again\n"
    assert home.ask("retry", job_id).returncode == 2


def test_a_studys_name_means_its_newest_job_that_suits_the_verb(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    failed = failed_job(settings, study(name="ours"), "no such model")
    running = running_job(settings, study(name="ours"))
    home = new_home(settings.home)
    assert home.ask("retry", "ours").stdout == f"{failed} is queued again\n"
    assert home.ask("priority", "ours", "3").stdout == f"{failed} has priority 3\n"
    assert home.ask("logs", running).stdout == f"No engine of job {running} has written a log yet.\n"
    assert home.ask("cancel", running).stdout == f"{running}: cancel requested\n"
    assert home.ask("cancel", "ours").returncode == 0
    for verb in ("logs", "cancel", "retry"):
        answer = home.ask(verb, "nothing such")
        assert answer.returncode == 2
        assert answer.stderr == (
            "drafthouse: there is no job 'nothing such', and no job of a study of that name: "
            "`drafthouse jobs` lists all jobs\n"
        )


def test_a_name_means_the_newest_job_with_results(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    good = measure_study(settings, study(name="ours"))
    bad = measure_study(settings, study(name="ours", arms=[{"name": "no draft"}], repeats=4), failing="no draft")
    home = new_home(settings.home)
    by_name, by_id = (home.ask("cost", which, "--price-per-hour", "2", "--json") for which in ("ours", good))
    assert by_name.stdout == by_id.stdout
    assert json.loads(by_name.stdout)
    assert by_name.stderr == (
        f"note: a newer job of 'ours', {bad}, has no valid run (8 of 8 runs failed); these are the results of {good}\n"
    )
    assert by_id.stderr == ""


def test_a_failed_run_is_counted_once(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    running_job(settings, study(name="half of them fail"), runs_done=4, runs_failed=2, runs_total=4)
    assert lines_of(settings, "half of them fail") == [
        "running  4/4 (2 failed)  about 3 min 20 s left",
        "  measuring · draft · reference/code/16 · c4-n8",
    ]


def lines_of(settings: Settings, study_name: str) -> list[str]:
    """What `drafthouse jobs` says of the study: its row, from the state on, and the lines under it."""
    printed = new_home(settings.home).ask("jobs").stdout.splitlines()
    assert max(map(len, printed)) <= 100
    (place,) = [place for place, line in enumerate(printed) if f" {study_name} " in line]
    under = list(itertools.takewhile(lambda line: line.startswith("  "), printed[place + 1 :]))
    return [printed[place].split(f" {study_name} ")[1].strip(), *under]


def test_why_a_study_ended_stands_under_its_row_within_a_hundred_columns(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    sentence = "7 of 8 comparisons decided; 'same' was dropped: 'good' is faster in every cell."
    ended = {"end_reason": "budget spent", "end_sentence": sentence, "remaining_s": 0.0}
    until = study(name="until it is known", repeats="until decided", budget="8 min")
    job_id = running_job(settings, until, runs_done=4, runs_total=4, **ended)
    finish(settings, job_id, "failed", "2 of 4 runs failed; the first: EngineError: no such head")
    row, *under = lines_of(settings, "until it is known")
    assert row == "failed  4/4"
    *why, error = under
    assert " ".join(line.strip() for line in why) == f"Stopped: the budget of 8 min is spent. {sentence}"
    assert error == "  2 of 4 runs failed; the first: EngineError: no such head"


def test_a_running_job_is_always_listed_and_others_page_by_page(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    running = running_job(settings, study(name="the oldest"))
    ended = add_ended_jobs(settings, study(name="done"), 230)
    home = new_home(settings.home)
    listed = home.ask("jobs").stdout
    assert f"\n{running}" in listed
    assert listed.endswith(f"Older ones: drafthouse jobs --before {ended[30]}\n")
    older = json.loads(home.ask("jobs", "--before", ended[30], "--json").stdout)
    assert [job["job_id"] for job in older] == [*reversed(ended[:30]), running]
    assert "there is no job nosuch" in home.refusal("jobs", "--before", "nosuch")


def test_earlier_runs_do_not_count_after_all_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_home(tmp_path)
    small = study()
    job_id = running_job(settings, small, runs_done=4, runs_total=4)
    runs = [(run, launch.index) for launch in plan(small) for run in launch.runs]
    for run, index in runs:
        write_run(settings, small, run, job_id, index)
    ingest_all(settings)
    with open_engine(settings.app_database_url) as engine:
        once = queue.job(engine, job_id)
    again = replace(once, attempt=1, reuse_from_attempt=1)
    monkeypatch.setattr("cli.follow._PUBLISHED_WITHIN_S", 0.0)
    assert all_there(Here(settings), once)
    assert not all_there(Here(settings), again)
    for run, index in runs:
        write_run(settings, small, run, job_id, index, attempt=1)
    ingest_all(settings)
    assert all_there(Here(settings), again)


@pytest.mark.parametrize("miscounted", ["draft", "no draft, draft"])
def test_whoever_waits_is_told_which_runs_are_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], miscounted: str
) -> None:
    settings, small = make_home(tmp_path), study()
    job_id = running_job(settings, small, runs_done=4, runs_total=4)
    for launch in plan(small):
        for run in launch.runs:
            write_run(settings, small, run, job_id, launch.index, miscounted=run.arm.name in miscounted.split(", "))
    finish(settings, job_id, "done")
    ingest_all(settings)
    if miscounted == "draft":
        assert follow_to_results(Here(settings), job_id).outcome == "done, 2 of 4 runs invalid"
    else:
        with pytest.raises(SystemExit, match="1"):
            follow_to_results(Here(settings), job_id)
        assert capsys.readouterr().err == f"{job_id}: done, 4 of 4 runs invalid\n"


def test_whoever_waits_is_told_what_keeps_the_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = make_home(tmp_path)
    job_id = queue.submit(settings, study(), actor=ADMIN)
    with open_engine(settings.app_database_url) as engine:
        register_worker(engine, "w", host="gpu01", hardware="NVIDIA H200", gpus=1, is_dead=lambda _worker: False)
        record(engine, "w", waits_for="GPU 0 is used by python (process 17 of ada)")
        looks = iter(range(2))

        def on_tick() -> None:
            if next(looks) == 1:
                queue.cancel(engine, job_id, actor=ADMIN)
                record(engine, "w", waits_for=None)

        assert follow(Here(settings), job_id, on_tick=on_tick).state == "cancelled"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[:2] == ["queued", "gpu01 waits: GPU 0 is used by python (process 17 of ada)"]
    assert lines[1].startswith("queued  waiting for a worker")


@pytest.mark.parametrize(
    ("hardware", "why"),
    [
        (None, "no worker has the engine 'vllm'"),
        ("H100", "no worker has the hardware 'H100'; workers have NVIDIA H200"),
    ],
)
def test_the_list_says_what_a_waiting_job_needs_and_no_worker_has(
    tmp_path: Path, hardware: str | None, why: str
) -> None:
    settings = make_home(tmp_path)
    waiting = study(hardware=hardware)
    queue.submit(settings, waiting, actor=ADMIN)
    with open_engine(settings.app_database_url) as engine:
        register_worker(engine, "w", host="gpu01", hardware="NVIDIA H200", gpus=1, is_dead=lambda _worker: False)
        store_engines(engine, "w", [])
    assert f"  {why}" in lines_of(settings, waiting.name)


def test_an_app_database_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    with open_engine(settings.app_database_url) as engine, engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE jobs RENAME TO gone"))
    answer = new_home(settings.home).ask("jobs")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "drafthouse: the app database does not answer: no such table: jobs\n"


def test_a_bar_ends_at_its_total_when_runs_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = make_home(tmp_path)
    job_id = running_job(settings, study(), runs_done=4, runs_failed=2, runs_total=4)

    def end() -> None:
        finish(settings, job_id, "failed", "two runs failed")

    assert follow(Here(settings), job_id, on_tick=end).state == "failed"
    assert capsys.readouterr().out.startswith("runs 4/4 (2 failed)  measuring")
