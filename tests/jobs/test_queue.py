"""The job table: the states of a job and who may change them."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from jobs import curation, queue
from jobs.engine_logs import log_tail
from jobs.fleet import leases
from jobs.series import store
from jobs.table import Job, Progress, State
from lab.errors import StudyError, UserError
from lab.study.parsing import study_to_toml
from tests.actors import ADMIN
from tests.jobs.greedy_worker import claimed_by
from tests.workers.homes import Home, until, worker_environment
from warehouse.app_db.schema import job_events, studies
from warehouse.app_db.schema import jobs as jobs_table

LEASE_S = 600.0


def progress(runs_done: int = 0) -> Progress:
    return Progress(
        phase="measuring", arm="a", runs_total=4, runs_done=runs_done, runs_failed=1, at="2026-11-21T04:00:00+00:00"
    )


def claimed(home: Home, worker: str = "me") -> Job:
    job = leases.claim(home.database, worker, LEASE_S)
    assert job is not None
    return job


def test_a_submitted_job_reads_back_as_it_was_submitted(home: Home) -> None:
    job_id = home.submit()
    job = home.job(job_id)
    assert (job.state, job.study, job.attempt, job.progress) == ("queued", home.study(), 0, None)
    assert queue.jobs(home.database) == [job]
    assert home.event_kinds(job_id) == ["submitted"]


def test_a_job_is_stored_with_its_id_moment_priority_and_hardware(home: Home) -> None:
    elsewhere = home.settings.model_copy(update={"workers_elsewhere": True})
    job = home.job(queue.submit(elsewhere, home.study(hardware="NVIDIA H200"), priority=7, actor=ADMIN))
    assert re.fullmatch(rf"{job.submitted_at:%Y%m%d-%H%M%S}-[0-9a-f]{{4}}", job.job_id)
    assert abs((datetime.now(UTC) - job.submitted_at).total_seconds()) < 3600
    assert (job.name, job.study_id) == ("test study", job.study.digest())
    assert (job.priority, job.hardware, job.study.hardware) == (7, "nvidia h200", "NVIDIA H200")
    assert (job.worker, job.started_at, job.finished_at, job.error) == (None, None, None, None)
    assert (job.cancel_requested, job.reuse_from_attempt) == (False, 0)
    plain = home.job(home.submit())
    assert (plain.priority, plain.hardware) == (0, None)


def test_the_same_study_may_be_submitted_twice_and_is_stored_once(home: Home) -> None:
    first, second = home.submit(), home.submit()
    other = home.submit(name="another")
    assert first != second
    study = home.study()
    assert home.job(first).study_id == home.job(second).study_id == study.digest()
    with home.database.connect() as connection:
        rows = {row["name"]: row for row in connection.execute(sa.select(studies)).mappings()}
    assert set(rows) == {"test study", "another"}
    row = rows["test study"]
    assert (row["study_id"], row["toml"]) == (study.digest(), study_to_toml(study))
    assert json.loads(row["json"]) == study.model_dump(mode="json")
    assert abs((datetime.now(UTC) - row["created_at"]).total_seconds()) < 3600
    assert home.job(other).study_id != study.digest()


def test_the_newest_jobs_are_listed_first_and_no_more_than_asked_for(home: Home) -> None:
    ids = [home.submit() for _ in range(4)]
    with home.database.begin() as connection:
        for place, job_id in enumerate((ids[2], ids[0], ids[3])):
            moment = datetime(2026, 11, 21, place, tzinfo=UTC)
            connection.execute(sa.update(jobs_table).where(jobs_table.c.job_id == job_id).values(submitted_at=moment))
        equal = sa.update(jobs_table).where(jobs_table.c.job_id == ids[1])
        connection.execute(equal.values(submitted_at=datetime(2026, 11, 21, 2, tzinfo=UTC)))
    newest = sorted((ids[3], ids[1]), reverse=True)
    assert [job.job_id for job in queue.jobs(home.database)] == [*newest, ids[0], ids[2]]
    assert [job.job_id for job in queue.jobs(home.database, limit=2)] == newest


def many_jobs(home: Home, count: int) -> list[str]:
    """So many ended jobs, a minute apart, the oldest first; the first one is running and the second one queued."""
    first = home.submit()
    with home.database.begin() as connection:
        row = dict(connection.execute(sa.select(jobs_table)).mappings().one())
        connection.execute(sa.delete(job_events))
        connection.execute(sa.delete(jobs_table))
        rows = [
            row
            | {"job_id": f"{first}-{number:04}", "state": "done", "worker": None}
            | {"submitted_at": MINUTE * number + SINCE, "finished_at": MINUTE * (count - number) + SINCE}
            for number in range(count)
        ]
        rows[0] |= {"state": "running", "worker": "w", "finished_at": None}
        rows[1] |= {"state": "queued", "finished_at": None}
        connection.execute(sa.insert(jobs_table), rows)
    return [job_row["job_id"] for job_row in rows]


MINUTE, SINCE = timedelta(minutes=1), datetime(2026, 11, 21, tzinfo=UTC)


def test_a_running_job_is_seen_however_many_were_submitted_after_it(home: Home) -> None:
    ids = many_jobs(home, 250)
    assert [job.job_id for job in queue.active(home.database)] == [ids[1], ids[0]]
    page = queue.page(home.database)
    assert [job.job_id for job in page.jobs] == [*reversed(ids[50:]), ids[1], ids[0]]
    assert page.older == ids[50]


def test_a_hidden_running_job_stays_hidden_however_many_were_submitted_after_it(home: Home) -> None:
    ids = many_jobs(home, 9)
    curation.change(home.database, ids[0], actor=ADMIN, hidden=True)
    for limit in (3, 200):
        assert ids[0] not in {job.job_id for job in queue.page(home.database, limit).jobs}
        assert ids[0] in {job.job_id for job in queue.page(home.database, limit, hidden=True).jobs}


def test_an_old_queued_job_is_listed_by_its_tag_too(home: Home) -> None:
    ids = many_jobs(home, 9)
    for job_id in (*ids[5:], ids[1]):
        curation.change(home.database, job_id, actor=ADMIN, tags=["nightly"])
    assert [job.job_id for job in queue.page(home.database, 3, tag="nightly").jobs] == [*ids[:5:-1], ids[1]]
    assert len(queue.page(home.database, tag="").jobs) == 9


def test_the_history_has_no_gaps_where_jobs_came_at_once(home: Home) -> None:
    ids = many_jobs(home, 11)
    with home.database.begin() as connection:
        connection.execute(
            sa.update(jobs_table).where(jobs_table.c.job_id >= ids[4]).values(submitted_at=SINCE + MINUTE * 20)
        )
    listed, before = [], None
    while True:
        page = queue.page(home.database, 3, before)
        listed.append([job.job_id for job in page.jobs])
        if (before := page.older) is None:
            break
    assert listed == [
        [*reversed(ids[8:]), ids[1], ids[0]],
        [ids[7], ids[6], ids[5]],
        [ids[4], ids[3], ids[2]],
        ids[1::-1],
    ]
    with pytest.raises(UserError, match="there is no job gone"):
        queue.page(home.database, 3, "gone")


def test_the_jobs_that_ended_last_come_first(home: Home) -> None:
    ids = many_jobs(home, 9)
    assert [job.job_id for job in queue.ended(home.database, 3)] == ids[2:5]


def test_a_studys_newest_job_is_found_by_its_digests_beginning(home: Home) -> None:
    ids = many_jobs(home, 60)
    digest = home.study().digest()
    newest = queue.newest_of_study(home.database, digest[:8])
    assert newest is not None
    assert newest.job_id == ids[-1]
    assert queue.newest_of_study(home.database, "%") is None


def test_higher_priority_is_claimed_first_then_the_older(home: Home) -> None:
    ids = [queue.submit(home.settings, home.study(), priority, actor=ADMIN) for priority in (0, 5, 0, 5)]
    assert [claimed(home).job_id for _ in ids] == [ids[1], ids[3], ids[0], ids[2]]
    assert leases.claim(home.database, "me", LEASE_S) is None


def test_two_workers_never_get_the_same_job(home: Home) -> None:
    ids = {home.submit() for _ in range(20)}
    assert Counter(claimed_by(2, worker_environment(home), home.folder)) == Counter(ids)


def test_a_queued_job_is_cancelled_at_once(home: Home) -> None:
    job_id = home.submit()
    queue.cancel(home.database, job_id, actor=ADMIN)
    queue.cancel(home.database, job_id, actor=ADMIN)
    job = home.job(job_id)
    assert (job.state, job.cancel_requested) == ("cancelled", False)
    assert job.finished_at is not None
    assert abs((datetime.now(UTC) - job.finished_at).total_seconds()) < 3600
    events = [(event.kind, event.detail) for event in queue.events(home.database, job_id)]
    assert events == [("submitted", ""), ("cancelled", "before it was started")]
    assert leases.claim(home.database, "me", LEASE_S) is None


def test_the_worker_of_a_running_job_hears_of_the_cancelling(home: Home) -> None:
    job_id = home.submit()
    claimed(home)
    queue.cancel(home.database, job_id, actor=ADMIN)
    queue.cancel(home.database, job_id, actor=ADMIN)
    assert leases.heartbeat(home.database, job_id, "me", LEASE_S, None) is False
    job = home.job(job_id)
    assert (job.state, job.cancel_requested, job.finished_at) == ("running", True, None)
    assert home.event_kinds(job_id) == ["submitted", "claimed", "cancel requested"]
    other = home.job(home.submit())
    assert (other.state, other.cancel_requested) == ("queued", False)


@pytest.mark.parametrize("state", ["done", "failed"])
def test_what_has_ended_cannot_be_cancelled(home: Home, state: State) -> None:
    job_id = home.submit()
    claimed(home)
    leases.finish(home.database, job_id, "me", state)
    with pytest.raises(UserError, match=f"^job {job_id} is already {state}: there is nothing to cancel$"):
        queue.cancel(home.database, job_id, actor=ADMIN)


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_an_ended_job_can_be_retried_as_the_next_try(home: Home, state: State) -> None:
    job_id = home.submit()
    claimed(home)
    leases.finish(home.database, job_id, "me", state, error="it broke", progress=progress(runs_done=4))
    queue.retry(home.database, job_id, actor=ADMIN)
    job = home.job(job_id)
    assert (job.state, job.attempt, job.error, job.finished_at, job.progress) == ("queued", 1, None, None, None)
    assert (job.cancel_requested, job.reuse_from_attempt) == (False, 0)
    last = queue.events(home.database, job_id)[-1]
    assert (last.kind, last.detail) == ("retried", "")


def test_with_everything_the_runs_of_earlier_tries_do_not_count(home: Home) -> None:
    job_id, other = home.submit(), home.submit()
    for attempt in (1, 2):
        assert claimed(home).job_id == job_id
        queue.cancel(home.database, job_id, actor=ADMIN)
        leases.finish(home.database, job_id, "me", "done")
        queue.retry(home.database, job_id, everything=True, actor=ADMIN)
        job = home.job(job_id)
        assert (job.attempt, job.reuse_from_attempt, job.cancel_requested) == (attempt, attempt, False)
        last = queue.events(home.database, job_id)[-1]
        assert (last.kind, last.detail) == ("retried", "all runs")
    claimed(home)
    leases.finish(home.database, job_id, "me", "failed")
    queue.retry(home.database, job_id, actor=ADMIN)
    assert (home.job(job_id).attempt, home.job(job_id).reuse_from_attempt) == (3, 2)
    assert (home.job(other).attempt, home.job(other).state) == (0, "queued")


def test_jobs_without_failed_runs_or_that_run_are_not_retried(home: Home) -> None:
    job_id = home.submit()
    with pytest.raises(UserError, match=f"^job {job_id} is queued: only a job that has ended can be run again$"):
        queue.retry(home.database, job_id, actor=ADMIN)
    claimed(home)
    leases.finish(home.database, job_id, "me", "done")
    sentence = f"^every run of job {job_id} completed: ask for all runs to measure them again$"
    with pytest.raises(UserError, match=sentence):
        queue.retry(home.database, job_id, actor=ADMIN)
    all_well = progress().model_copy(update={"runs_failed": 0})
    with home.database.begin() as connection:
        connection.execute(sa.update(jobs_table).values(progress_json=all_well.model_dump_json()))
    with pytest.raises(UserError, match=sentence):
        queue.retry(home.database, job_id, actor=ADMIN)


@pytest.mark.parametrize(
    "ask",
    [
        queue.job,
        queue.events,
        functools.partial(queue.cancel, actor=ADMIN),
        functools.partial(queue.retry, actor=ADMIN),
    ],
)
def test_an_unknown_job_is_answered_with_a_sentence(home: Home, ask: object) -> None:
    assert callable(ask)
    with pytest.raises(UserError, match=r"^there is no job nobody: `drafthouse jobs` lists all jobs$"):
        ask(home.database, "nobody")


def test_a_value_that_no_column_can_hold_is_refused_by_a_sentence_and_is_no_outage(either_home: Home) -> None:
    database = either_home.database
    for ask in (
        lambda: queue.job_id_of(database, "a\0b"),
        lambda: queue.page(database, before="\0"),
        lambda: store.acknowledge(database, 2**40, "late", actor=ADMIN),
        lambda: store.acknowledge(database, 10**20, "late", actor=ADMIN),
    ):
        with pytest.raises(UserError, match=r"there is no (job|alarm)|the app database can hold no such value \("):
            ask()
    assert either_home.job(either_home.submit()).state == "queued"


def test_a_job_id_that_climbs_out_of_the_home_has_no_log(home: Home) -> None:
    (home.settings.logs_dir / "engines").mkdir(parents=True, exist_ok=True)
    (home.settings.home / "secret.log").write_text("secret")
    assert log_tail(home.settings, "../../secret") == ""


def test_a_study_that_cannot_run_is_refused_with_every_problem(home: Home) -> None:
    arms = [
        {"name": "a", "engine": "absent"},
        {"name": "b", "engine": "nothing", "baseline": True},
        {
            "name": "c",
            "flags": {"port": 1, "--x": 2},
            "speculation": {"method": "eagle3", "model": "./no-model", "num_speculative_tokens": 3},
        },
    ]
    loads = [{"max_concurrency": 1, "num_prompts": 1000}]
    with pytest.raises(StudyError) as refused:
        home.submit(arms=arms, loads=loads, target="reference")
    problems = dict(refused.value.problems)
    assert "is not prepared yet" in problems["target"]
    assert "is not installed" in problems["arms[0].engine"]
    assert "engines.toml has absent, endpoint, vllm" in problems["arms[1].engine"]
    assert "sets this itself" in problems["arms[2].flags.port"]
    assert "is not a flag" in problems["arms[2].flags.--x"]
    assert "no-model does not hold a model" in problems["arms[2].speculation.model"]
    assert "64" in problems["workloads[0]"]
    assert queue.jobs(home.database) == []


def test_a_broker_that_is_away_is_no_reason_to_refuse_a_study(home: Home) -> None:
    with_broker = home.settings.model_copy(update={"broker_url": "redis://127.0.0.1:1/0"})
    assert until(lambda: queue.submit(with_broker, home.study(), actor=ADMIN), "submit returns", within_s=600)
