"""A job that measures until decided, with stand-in engines: it ends by itself, and says why."""

from __future__ import annotations

from typing import Any

from jobs.table import Job
from tests.workers.homes import Home
from workers.worker import Worker

ARMS = [
    {"name": "plain", "baseline": True, "flags": {"token_s": 0.002}},
    {"name": "slow", "flags": {"token_s": 0.02}},
]
LOADS = [{"max_concurrency": 1, "num_prompts": 3}]


def measured(home: Home, **study: Any) -> Job:
    job_id = home.submit(**({"arms": ARMS, "loads": LOADS, "repeats": "until decided"} | study))
    Worker(home.settings).work()
    return home.job(job_id)


def test_it_ends_before_the_most_repeats_and_says_why(home: Home) -> None:
    job = measured(home, budget="10 h")
    assert (job.state, job.error) == ("done", None)
    assert job.progress is not None
    assert job.progress.end_reason in ("decided", "hopeless")
    assert "of 1 comparisons decided" in job.progress.end_sentence
    assert job.progress.runs_done == job.progress.runs_total == len(home.runs())
    assert not job.progress.runs_total_is_at_most
    assert 4 <= len(home.runs()) <= 24
    assert all(run.until_decided for run in home.runs())


def test_a_budget_of_seconds_is_spent_by_the_first_repeat(home: Home) -> None:
    job = measured(home, budget="1 s")
    assert job.state == "done"
    assert job.progress is not None
    assert (job.progress.end_reason, job.progress.runs_done) == ("budget spent", 2)
    assert "The budget does not hold the 2 repeats of the first look" in job.progress.end_sentence


def test_a_worker_that_starts_again_finds_the_end_without_measuring_anything(home: Home) -> None:
    job = measured(home, budget="1 s")
    before = {run.run_id: run.started_at for run in home.runs()}
    with home.database.begin() as connection:
        connection.exec_driver_sql("UPDATE jobs SET state = 'queued', progress_json = NULL")
    Worker(home.settings).work()
    again = home.job(job.job_id)
    assert again.state == "done"
    assert again.progress is not None
    assert again.progress.end_reason == "budget spent"
    assert {run.run_id: run.started_at for run in home.runs()} == before
