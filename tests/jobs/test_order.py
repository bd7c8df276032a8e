"""The order of the queue, which worker may take which job, and when each job will start."""

from __future__ import annotations

import dataclasses
import functools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import listing, order, queue
from jobs.fleet import leases
from jobs.fleet.worker_registry import AWAY_AFTER_S, WorkerInfo, register_worker
from jobs.order import estimated_starts, priorities
from jobs.table import MAX_PRIORITY, Job, Progress
from jobs.turns import in_turn
from lab.errors import StudyError, UserError
from lab.estimate import History, estimate
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.workers.homes import Home

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def job(number: int, *, priority: int = 0, hardware: str | None = None, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "job_id": f"job-{number}",
        "study_id": "s",
        "name": "small",
        "study": study(hardware=hardware),
        "state": "queued",
        "priority": priority,
        "submitted_at": NOW + timedelta(seconds=number),
        "started_at": None,
        "finished_at": None,
        "worker": None,
        "lease_expires_at": None,
        "attempt": 0,
        "progress": None,
        "error": None,
        "cancel_requested": False,
        "hardware": hardware,
    }
    return Job(**{**values, **changes})


def running(number: int, worker: str, remaining_s: float | None) -> Job:
    progress = Progress(phase="measuring", arm="a", remaining_s=remaining_s, at=NOW.isoformat())
    return job(number, state="running", worker=worker, progress=progress)


def worker(name: str, hardware: str = "NVIDIA H200", last_seen: datetime = NOW) -> WorkerInfo:
    return WorkerInfo(name, name, hardware, 1, None, NOW, last_seen, None)


def test_starts_are_counted_from_now_and_by_the_plan() -> None:
    waiting = [job(1), job(2)]
    now = datetime.now(UTC)
    free_worker = worker("a", last_seen=now)
    expected = estimated_starts(waiting, [free_worker])
    first, second = expected["job-1"], expected["job-2"]
    assert first is not None
    assert second is not None
    assert abs((first - now).total_seconds()) < 60
    assert (second - first).total_seconds() == pytest.approx(order.assumed_s(waiting[0].study))
    assert order.assumed_s(waiting[0].study) == pytest.approx(estimate(plan(waiting[0].study), History()).seconds)


def starts(jobs: list[Job], *workers: WorkerInfo) -> dict[str, float | None]:
    """Seconds from now; every study takes 100 s."""
    expected = estimated_starts(jobs, workers, NOW, lambda _study: 100.0)
    return {job_id: None if at is None else (at - NOW).total_seconds() for job_id, at in expected.items()}


def queued_in_order(jobs: list[Job]) -> list[Job]:
    running = [job.submitted_by for job in jobs if job.state == "running"]
    return in_turn([job for job in jobs if job.state == "queued"], running)


def ids(home: Home) -> list[str]:
    """The queued jobs in turn, as pages show them and as the database sorts them."""
    in_order = [job.job_id for job in queued_in_order(queue.jobs(home.database))]
    assert [job.job_id for job in listing.next_queued(home.database, 100)] == in_order
    assert [listing.position(home.database, job_id) for job_id in in_order] == [*range(1, len(in_order) + 1)]
    return in_order


def test_a_free_worker_starts_the_first_job_now_then_the_next() -> None:
    assert starts([job(1), job(2), job(3, priority=5)], worker("a")) == {"job-3": 0.0, "job-1": 100.0, "job-2": 200.0}


def test_two_workers_share_the_queue() -> None:
    assert list(starts([job(n) for n in range(4)], worker("a"), worker("b")).values()) == [0.0, 0.0, 100.0, 100.0]


def test_a_busy_worker_is_free_by_its_jobs_progress_or_its_plan() -> None:
    assert starts([running(1, "a", 30.0), job(2)], worker("a")) == {"job-2": 30.0}
    assert starts([running(1, "a", None), job(2)], worker("a")) == {"job-2": 100.0}


SPREAD = study(spread=True, repeats=5)  # blocks of 20 s


def test_a_spread_study_makes_room_after_each_block_and_continues_in_turn() -> None:
    spread = dataclasses.replace(running(0, "a", 70.0), study=SPREAD)
    assert starts([spread, job(1), job(2)], worker("a")) == {"job-1": 20.0, "job-2": 140.0}
    waiting = dataclasses.replace(job(0), study=SPREAD)
    assert starts([waiting, job(1)], worker("a")) == {"job-0": 0.0, "job-1": 20.0}
    assert starts([spread, job(1, priority=-1)], worker("a")) == {"job-1": 70.0}
    alone = dataclasses.replace(spread, study=study(spread=True, repeats=5, alone=True))
    assert starts([alone, job(1)], worker("a")) == {"job-1": 70.0}


def test_a_worker_that_helps_is_free_after_a_block() -> None:
    spread = dataclasses.replace(running(0, "a", 70.0), study=SPREAD, priority=1)
    helper = dataclasses.replace(worker("b"), job_id="job-0")
    assert starts([spread, job(1), job(2)], worker("a"), helper) == {"job-1": 20.0, "job-2": 70.0}


def test_a_job_waits_for_the_hardware_it_names_and_others_pass_it() -> None:
    jobs = [running(1, "gpu", 500.0), job(2, hardware="h200"), job(3)]
    assert starts(jobs, worker("gpu"), worker("cpu", "AMD EPYC")) == {"job-2": 500.0, "job-3": 0.0}


def test_a_job_that_no_worker_may_take_has_no_start() -> None:
    away = NOW - timedelta(seconds=AWAY_AFTER_S + 1)
    assert starts([job(1)]) == {"job-1": None}
    assert starts([job(1)], worker("a", last_seen=away)) == {"job-1": None}
    assert starts([job(1, hardware="B200")], worker("a")) == {"job-1": None}


@given(
    st.lists(st.integers(-2, 2), max_size=8),
    st.lists(st.sampled_from(["H200", "EPYC"]), max_size=3),
    st.lists(st.sampled_from([None, "h200", "epyc"]), min_size=8, max_size=8),
)
def test_no_job_starts_before_a_better_placed_one_of_the_same_hardware(
    priority: list[int], hardware: list[str], wanted: list[str | None]
) -> None:
    jobs = [job(n, priority=p, hardware=wanted[n]) for n, p in enumerate(priority)]
    expected = starts(jobs, *(worker(f"w{n}", name) for n, name in enumerate(hardware)))
    assert set(expected) == {queued.job_id for queued in jobs}
    in_order = queued_in_order(jobs)
    for text in (None, "h200", "epyc"):
        times = [expected[queued.job_id] for queued in in_order if queued.study.hardware == text]
        known_times = [time_s for time_s in times if time_s is not None]
        assert known_times == sorted(known_times)
        assert len(known_times) in (0, len(times))


NEAR_THE_BOUND = st.integers(MAX_PRIORITY - 3, MAX_PRIORITY + 3)


@given(st.lists(st.integers(-3, 3) | NEAR_THE_BOUND, min_size=1, max_size=10), st.data())
def test_any_order_can_be_had_by_raising_priorities_up_to_their_bound(priority: list[int], data: st.DataObject) -> None:
    jobs = [job(n, priority=p) for n, p in enumerate(priority)]
    wanted = data.draw(st.permutations(jobs))
    changed = priorities(wanted)
    made = [job(int(queued.job_id[4:]), priority=changed.get(queued.job_id, queued.priority)) for queued in jobs]
    assert [queued.job_id for queued in queued_in_order(made)] == [queued.job_id for queued in wanted]
    assert all(queued.priority <= MAX_PRIORITY for queued in made)
    is_far_from_it = max(priority) < MAX_PRIORITY - 10
    assert not is_far_from_it or all(changed.get(queued.job_id, 4) > queued.priority for queued in jobs)


def test_an_order_that_is_there_already_changes_nothing() -> None:
    assert priorities([job(1, priority=2), job(2, priority=2), job(3)]) == {}


def test_a_job_is_moved_up_and_down_one_place_at_a_time(home: Home) -> None:
    first, second, third = (home.submit() for _ in range(3))
    order.move_up(home.database, third, actor=ADMIN)
    assert ids(home) == [first, third, second]
    order.move_up(home.database, third, actor=ADMIN)
    assert ids(home) == [third, first, second]
    order.move_up(home.database, third, actor=ADMIN)  # it is the first
    assert ids(home) == [third, first, second]
    order.move_down(home.database, first, actor=ADMIN)
    assert ids(home) == [third, second, first]
    claimed = [leases.claim(home.database, "me", 30.0) for _ in range(3)]
    assert [job.job_id for job in claimed if job] == [third, second, first]


def test_a_waiting_job_gets_another_priority_and_that_is_an_event(home: Home) -> None:
    first, second = home.submit(), home.submit()
    order.reprioritise(home.database, second, 3, actor=ADMIN)
    assert ids(home) == [second, first]
    assert (home.job(second).priority, home.job(first).priority) == (3, 0)
    assert home.event_kinds(first) == ["submitted"]
    last = queue.events(home.database, second)[-1]
    assert (last.kind, last.detail) == ("priority", "3")


def test_only_a_job_that_waits_has_a_place_in_the_queue(home: Home) -> None:
    job_id = home.submit()
    leases.claim(home.database, "me", 30.0)
    set_to_1 = functools.partial(order.reprioritise, priority=1)
    for ask in (order.move_up, order.move_down, set_to_1):
        with pytest.raises(UserError, match=f"^job {job_id} is running: only a queued job can be moved$"):
            ask(home.database, job_id, actor=ADMIN)
        with pytest.raises(UserError, match="there is no job nobody"):
            ask(home.database, "nobody", actor=ADMIN)


def test_a_priority_out_of_range_is_refused_with_the_range(home: Home) -> None:
    job_id = home.submit()
    for priority in (MAX_PRIORITY + 1, -MAX_PRIORITY - 1):
        with pytest.raises(UserError, match=f"^priority {priority} is out of range: use -1000000 to 1000000$"):
            order.reprioritise(home.database, job_id, priority, actor=ADMIN)
    for priority in (MAX_PRIORITY, -MAX_PRIORITY):
        order.reprioritise(home.database, job_id, priority, actor=ADMIN)
        assert home.job(job_id).priority == priority


def test_a_priority_out_of_bounds_is_refused_at_submission(home: Home) -> None:
    for priority in (MAX_PRIORITY + 1, -MAX_PRIORITY - 1, 2**31, 2**70):
        with pytest.raises(UserError, match=f"^priority {priority} is out of range: use -1000000 to 1000000$"):
            queue.submit(home.settings, home.study(), priority, actor=ADMIN)
    assert ids(home) == []


def test_a_job_moves_past_one_that_has_the_highest_priority(home: Home) -> None:
    first, second = home.submit(), home.submit()
    order.reprioritise(home.database, first, MAX_PRIORITY, actor=ADMIN)
    order.move_up(home.database, second, actor=ADMIN)
    assert ids(home) == [second, first]
    assert (home.job(second).priority, home.job(first).priority) == (MAX_PRIORITY, MAX_PRIORITY - 1)


def submit_for(home: Home, hardware: str | None) -> str:
    elsewhere = home.settings.model_copy(update={"workers_elsewhere": True})
    return queue.submit(elsewhere, home.study(hardware=hardware), actor=ADMIN)


def test_a_job_without_hardware_does_not_wait_behind_one_with_hardware(home: Home) -> None:
    submit_for(home, "H200")
    any_job = submit_for(home, None)
    claimed = leases.claim(home.database, "cpu", 30.0, "AMD EPYC")
    assert claimed is not None
    assert claimed.job_id == any_job


@pytest.mark.parametrize("text", ["%", "_", "H_00", "100%"])
def test_signs_that_mean_something_to_a_database_mean_nothing_in_a_name(home: Home, text: str) -> None:
    submit_for(home, text)
    assert leases.claim(home.database, "gpu", 30.0, "NVIDIA H200") is None
    assert leases.claim(home.database, "gpu", 30.0, f"odd {text} name") is not None


def test_hardware_that_no_worker_has_is_refused_with_what_there_is(home: Home) -> None:
    register_worker(home.database, "w", host="h", hardware="2 x NVIDIA H200", gpus=2, is_dead=lambda _worker: False)
    with pytest.raises(StudyError) as refused:
        submit_for(home, "B200")
    ((field, sentence),) = refused.value.problems
    assert field == "hardware"
    assert sentence == (
        "no worker has the hardware 'B200'; workers have 2 x NVIDIA H200. Leave hardware out to allow any, or start "
        "`drafthouse worker` on such a machine first"
    )
    register_worker(home.database, "v", host="h", hardware="AMD EPYC", gpus=0, is_dead=lambda _worker: False)
    with pytest.raises(StudyError, match=r"'B200'; workers have 2 x NVIDIA H200, AMD EPYC. Leave"):
        submit_for(home, "B200")
    assert queue.jobs(home.database) == []
    submit_for(home, "h200")
    submit_for(home, None)


def test_before_any_worker_is_known_any_hardware_may_be_asked_for(home: Home) -> None:
    assert home.job(submit_for(home, "B200")).state == "queued"


SERVER = {"name": "server", "engine": "endpoint", "server": {"base_url": "http://gpu7:8000"}}


def test_a_worker_whose_gpus_are_used_gets_only_studies_of_servers() -> None:
    kept = dataclasses.replace(worker("a"), waits_for="GPU 0 is used by python")
    of_a_server = dataclasses.replace(job(2), study=study(arms=[SERVER]))
    assert starts([job(1), of_a_server], kept) == {"job-1": None, "job-2": 0.0}
    assert starts([running(0, "a", 30.0), job(1)], kept) == {"job-1": 30.0}
