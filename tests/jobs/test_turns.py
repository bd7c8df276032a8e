"""Submitters take turns, and what the queue foretells comes true: a simulated week."""

from __future__ import annotations

import heapq
import itertools
import random
import sqlite3
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from jobs import queue
from jobs.fleet import leases
from jobs.order import estimated_starts
from jobs.table import Job, Progress
from jobs.turns import Turns, in_turn, queued_in_turn
from lab.roles import Actor, Role
from tests.jobs.test_order import NOW, job, worker
from tests.workers.homes import Home
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.app_db.schema import studies as studies_table

SLOTS, STUDIES, WEEK_S = 8, 200, 7 * 24 * 3600.0
SUBMITTERS = ("ann", "bob", "eve", "joe", "may")


def names(jobs: list[Job]) -> list[str]:
    return [f"{job.submitted_by}{job.job_id[4:]}" for job in jobs]


def test_submitters_take_turns_by_what_they_have_running_and_waiting() -> None:
    waiting = [job(n, submitted_by=who) for n, who in enumerate(("ann", "ann", "ann", "bob", "eve"))]
    assert names(in_turn(waiting, [])) == ["ann0", "bob3", "eve4", "ann1", "ann2"]
    assert names(in_turn(waiting, ["ann", "eve", "eve"])) == ["bob3", "ann0", "ann1", "eve4", "ann2"]
    urgent = [*waiting, job(5, submitted_by="ann", priority=1)]
    assert names(in_turn(urgent, ["ann"]))[:2] == ["ann5", "bob3"]


def test_a_worker_claims_in_turn(home: Home) -> None:
    def submitted(who: str) -> str:
        return queue.submit(home.settings, home.study(alone=False), actor=Actor(who, Role.SUBMITTER))

    ids = [submitted(who) for who in ("ann", "ann", "bob")]
    claimed = [leases.claim(home.database, f"host/{number}", 30.0) for number in range(3)]
    assert [job.job_id for job in claimed if job] == [ids[0], ids[2], ids[1]]


@given(st.lists(st.tuples(st.sampled_from(SUBMITTERS), st.integers(0, 2), st.booleans()), max_size=12), st.data())
def test_what_is_taken_is_the_first_in_turn_that_fits(asked: list[tuple[str, int, bool]], data: st.DataObject) -> None:
    left = [job(n, submitted_by=who, priority=priority) for n, (who, priority, _) in enumerate(asked)]
    fitting = {f"job-{n}" for n, (*_, fits) in enumerate(asked) if fits}
    turns = Turns(left)
    while True:
        running = data.draw(st.lists(st.sampled_from(SUBMITTERS), max_size=4))
        first = next((job for job in in_turn(left, running) if job.job_id in fitting), None)
        assert turns.take(running, lambda job: job.job_id in fitting) == first
        if first is None:
            break
        left.remove(first)
    assert bool(turns) == bool(left)


@dataclass
class Slots:
    """Eight slots that take studies by the real order, at a point in time."""

    planned_s: dict[str, float]
    takes_s: dict[str, float]
    waiting: list[Job] = field(default_factory=list)
    running: dict[str, tuple[Job, datetime]] = field(default_factory=dict)  # by the worker, with its start
    ends: list[tuple[datetime, str]] = field(default_factory=list)
    started: dict[str, datetime] = field(default_factory=dict)

    def play(self, until: datetime | None = None) -> None:
        """Go on until that time, or until nothing waits."""
        while self.ends and (self.waiting if until is None else self.ends[0][0] < until):
            now, name = heapq.heappop(self.ends)
            del self.running[name]
            self._take(now)

    def submit(self, arrived: Job) -> None:
        self.waiting.append(arrived)
        self._take(arrived.submitted_at)

    def _take(self, now: datetime) -> None:
        for name in (f"slot {number}" for number in range(SLOTS)):
            if name not in self.running and self.waiting:
                taken = in_turn(self.waiting, [job.submitted_by for job, _ in self.running.values()])[0]
                self.waiting.remove(taken)
                self.started[taken.job_id], self.running[name] = now, (taken, now)
                heapq.heappush(self.ends, (now + timedelta(seconds=self.takes_s[taken.job_id]), name))

    def copied(self) -> Slots:
        now = (list(self.waiting), dict(self.running), list(self.ends), dict(self.started))
        return Slots(self.planned_s, self.takes_s, *now)

    def foretold(self, now: datetime) -> Mapping[str, datetime | None]:
        """What the Jobs page says; running studies say what is left by their plan."""
        at_work = []
        for name, (taken, began) in self.running.items():
            left_s = max(0.0, self.planned_s[taken.job_id] - (now - began).total_seconds())
            progress = Progress(phase="measuring", arm="a", remaining_s=left_s, at=now.isoformat())
            at_work.append(replace(taken, state="running", worker=name, progress=progress))
        slots = [worker(f"slot {number}", last_seen=now) for number in range(SLOTS)]
        by_study = {id(job.study): self.planned_s[job.job_id] for job in self.waiting}
        return estimated_starts([*self.waiting, *at_work], slots, now, lambda study: by_study[id(study)])


def submissions_of_a_week(rng: random.Random) -> list[Job]:
    """Five submitters; one of them submits forty studies at once."""
    arrivals = []
    for number in range(STUDIES):
        who, at_s = rng.choice(SUBMITTERS), rng.uniform(0, WEEK_S)
        if number < 40:
            who, at_s = SUBMITTERS[0], WEEK_S / 3 + number
        arrived = job(number, submitted_by=who, priority=int(rng.random() < 0.05))
        study = arrived.study.model_copy()  # one of its own, so that it is known by its identity
        arrivals.append(replace(arrived, study=study, submitted_at=NOW + timedelta(seconds=at_s)))
    return sorted(arrivals, key=lambda job: job.submitted_at)


def week(seed: int) -> tuple[list[tuple[float, float]], dict[str, list[float]]]:
    """Return the error of each start foretold at submission and the wait, in seconds, and the hours by submitter.

    True are the starts with the durations that came, which are foretold to a tenth, if nobody submits anything later.
    """
    rng = random.Random(seed)  # noqa: S311 - a simulation
    arrivals = submissions_of_a_week(rng)
    planned_s = {job.job_id: rng.lognormvariate(9.5, 0.8) for job in arrivals}
    slots = Slots(planned_s, {job_id: planned * rng.lognormvariate(0, 0.1) for job_id, planned in planned_s.items()})
    errors = []
    for arrived in arrivals:
        now = arrived.submitted_at
        slots.play(now)
        slots.submit(arrived)
        if arrived.job_id not in slots.started:
            alone, expected = slots.copied(), slots.foretold(now)[arrived.job_id]
            alone.play()
            assert expected is not None
            began = alone.started[arrived.job_id]
            errors.append((abs(expected - began).total_seconds(), (began - now).total_seconds()))
    slots.play()
    waits: dict[str, list[float]] = {who: [] for who in SUBMITTERS}
    for arrived in arrivals:
        wait = slots.started[arrived.job_id] - arrived.submitted_at
        waits[arrived.submitted_by or ""].append(wait.total_seconds() / 3600)
    return errors, waits


def test_a_week_of_200_studies_is_forecast_within_a_fifth() -> None:
    """Of those that wait: half of them, and the sum of all errors over the sum of all waits."""
    for seed in range(3):
        errors, _ = week(seed)
        assert len(errors) > 80
        assert statistics.median(error_s / wait_s for error_s, wait_s in errors) < 0.2
        assert sum(error_s for error_s, _ in errors) < 0.2 * sum(wait_s for _, wait_s in errors)


def test_forty_studies_of_one_submitter_do_not_hold_up_the_others() -> None:
    _, waits = week(0)
    many, *others = (statistics.mean(hours) for hours in waits.values())
    assert max(others) < many / 4


def _random_rows(rng: random.Random) -> list[dict[str, object]]:
    """Jobs of several submitters, one of them unknown, of which some run, need engines or hardware."""
    at = [NOW + timedelta(seconds=rng.randrange(20)) for _ in range(40)]
    return [
        {
            "job_id": f"job-{number:02}",
            "study_id": "s",
            "name": "n",
            "study_json": "{}",
            "state": rng.choice(("queued", "queued", "queued", "running", "done")),
            "priority": rng.choice((0, 0, 0, 1, -1)),
            "submitted_at": submitted_at,
            "submitted_by": rng.choice((None, "ann", "bob", "bob", "bob")),
            "hardware": rng.choice((None, None, "h200", "epyc")),
            "needs": rng.choice(("/vllm/", "/vllm 0.32.0/", "/vllm 0.31.0/", "/other//vllm/", "")),
        }
        for number, submitted_at in enumerate(at)
    ]


def test_a_claim_in_sql_takes_jobs_in_the_order_of_turns(either_home: Home) -> None:
    home = either_home
    with home.database.begin() as connection:
        row = {"study_id": "s", "name": "n", "toml": "", "json": "{}", "created_at": NOW}
        connection.execute(studies_table.insert().values(row))
    host, able = {"vllm": "0.32.0", "endpoint": None}, ("/vllm/", "/vllm 0.32.0/", "")
    for seed in range(10):
        rng = random.Random(seed)  # noqa: S311 - a simulation
        rows = _random_rows(rng)
        passed_over = {str(row["job_id"]) for row in rng.sample(rows, 3)}
        with home.database.begin() as connection:
            connection.execute(jobs_table.delete())
            connection.execute(jobs_table.insert(), rows)
            found = list(queued_in_turn(connection, "NVIDIA H200", passed_over, host))
        running = [row["submitted_by"] for row in rows if row["state"] == "running"]
        waiting = in_turn([SimpleNamespace(**row) for row in rows if row["state"] == "queued"], running)  # type: ignore[arg-type]
        assert found == [
            job.job_id
            for job in waiting
            if job.needs in able and job.hardware in (None, "h200") and job.job_id not in passed_over
        ]
        assert found


def test_a_claim_costs_no_more_in_a_longer_queue(home: Home) -> None:
    def steps(queued: int) -> int:
        """Those of SQLite's machine, in tens, for finding the first of so many jobs of three submitters."""
        row = {"study_id": "s", "name": "n", "study_json": "{}", "state": "queued", "needs": "/vllm/"}
        rows = [
            row
            | {"job_id": f"job-{number:05}", "submitted_at": NOW + timedelta(seconds=number)}
            | {"submitted_by": SUBMITTERS[number % 3]}
            for number in range(queued)
        ]
        taken = itertools.count()
        with home.database.begin() as connection:
            connection.execute(jobs_table.delete())
            connection.execute(jobs_table.insert(), rows)
            machine = connection.connection.dbapi_connection
            assert isinstance(machine, sqlite3.Connection)
            machine.set_progress_handler(lambda: next(taken) < 0, 10)
            assert next(queued_in_turn(connection, "NVIDIA H200", (), {"vllm": "0.32.0"})) == "job-00000"
            machine.set_progress_handler(None, 0)
        return next(taken)

    with home.database.begin() as connection:
        row = {"study_id": "s", "name": "n", "toml": "", "json": "{}", "created_at": NOW}
        connection.execute(studies_table.insert().values(row))
    assert steps(3000) <= 2 * steps(30)
