"""Rows of the job table as frozen records. The table is the single source of truth about jobs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from lab.errors import UnknownNameError, UserError
from lab.study import Frozen, Study
from lab.study.duration import duration_text
from lab.validity.words import lost_words
from warehouse.app_db.clock import database_now
from warehouse.app_db.schema import job_events, jobs

State = Literal["queued", "running", "done", "failed", "cancelled"]
#: States of jobs that have not ended, and of ended jobs.
ACTIVE: tuple[State, ...] = ("queued", "running")
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")
#: In tables: a job that is done although some of its runs failed, or are invalid, or none is valid.
SOME_FAILED, SOME_INVALID, NONE_VALID = "some failed", "some invalid", "none valid"
#: What a worker writes before the error of the first failed run.
_OF_RUNS = re.compile(r"\A\d+ of \d+ runs failed; the first: ")
#: The event of a queued job that a worker could not read; its detail ends with the traceback.
SET_ASIDE = "set aside"
#: The largest priority of a job, negative or positive; fits into an INTEGER.
MAX_PRIORITY = 1_000_000
Phase = Literal["starting engine", "warming up", "measuring", "finishing"]


class Progress(Frozen):
    """The progress of a running job; written at least once a second."""

    phase: Phase
    arm: str
    workload: str | None = None
    load: str | None = None
    repeat: int = 0
    runs_total: int = 0
    runs_total_is_at_most: bool = False  # earlier runs decide how many there will be
    runs_done: int = 0  # with a bundle, completed or failed
    runs_failed: int = 0
    launches_total: int = 0
    launches_done: int = 0
    requests_done: int = 0  # of the current run
    requests_total: int = 0
    output_tok_per_s: float | None = None
    ttft_ms: float | None = None
    remaining_s: float | None = None
    standing: str = ""  # a sentence on what is known so far, if that decides what the study measures next
    end_reason: str = ""  # why nothing more was measured, in a word or two; empty while it measures
    end_sentence: str = ""  # the same in a sentence; empty if there is nothing to add
    engine_log: str = ""  # the last lines of an engine that starts, for hosts that cannot read its log
    at: str  # UTC, ISO 8601


@dataclass(frozen=True)
class Job:
    """A study in the queue."""

    job_id: str
    study_id: str
    name: str
    study: Study
    state: State
    priority: int
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: float | None  # seconds since 1970 UTC
    attempt: int  # 0, then one more each time a user retries the job
    progress: Progress | None
    error: str | None
    cancel_requested: bool
    hardware: str | None = None  # lower case: only workers with this text in their hardware's name take the job
    reuse_from_attempt: int = 0  # runs of earlier attempts do not count
    submitted_by: str | None = None  # its owner; None: unknown
    needs: str = ""  # its engines: `jobs.fleet.needs`
    lease: int = 0  # how often it was claimed: the number of its lease
    clock_behind_s: float | None = None  # the database's time minus its worker's at the last claim; None: unknown
    host: str | None = None  # that claimed it last; None: none has
    over_hosts: bool = False  # workers of other hosts may measure blocks of it
    runs_invalid: int | None = None  # as `jobs.outcomes` finds them in the warehouse; None: unknown

    @property
    def cause(self) -> str | None:
        """Return the error's first line, without the number of failed runs, which tables show beside it."""
        return _OF_RUNS.sub("", self.error.splitlines()[0]) if self.error else None

    @property
    def lost(self) -> str:
        """Return the runs that failed or are invalid, in words: `2 failed, 1 invalid`; empty if there are none."""
        return lost_words(*self._lost)

    @property
    def state_word(self) -> str:
        """Return the state as tables have it: of a job that is done it says whether some runs were lost, or all."""
        failed, invalid = self._lost
        if self.state != "done" or not failed + invalid:
            return self.state
        if self.progress is not None and self.progress.runs_done <= failed + invalid:
            return NONE_VALID
        return SOME_FAILED if failed else SOME_INVALID

    @property
    def outcome(self) -> str:
        """Return the state, with the runs that were lost: `done, 5 of 12 runs failed, 7 invalid`."""
        lost = lost_words(*self._lost, None if self.progress is None else self.progress.runs_done)
        return f"{self.state}, {lost}" if lost and self.state in FINISHED else self.state

    @property
    def _lost(self) -> tuple[int, int]:
        return 0 if self.progress is None else self.progress.runs_failed, self.runs_invalid or 0

    @property
    def why_ended(self) -> str:
        """Say why nothing more was measured, and what is known; empty while it measures, and of a fixed plan."""
        if self.progress is None or self.progress.end_reason in ("", "complete"):
            return ""
        reason, said = self.progress.end_reason, self.progress.end_sentence
        if reason == "budget spent" and self.study.budget_s is not None:
            why = f"Stopped: the budget of {duration_text(self.study.budget_s)} is spent."
        elif reason == "hopeless":
            why = "Stopped early: more repeats would probably decide nothing more within the budget."
        else:
            why = f"{reason.capitalize()}."
        return f"{why} {said}".rstrip()


@dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    at: datetime
    kind: str  # submitted, claimed, set aside, requeued, released, priority, cancel requested, retried, done, ...
    detail: str
    actor: str | None = None  # None: a worker


class UnreadableJobError(UserError):
    """A row that this Drafthouse cannot understand: another version wrote it, or it is damaged."""

    def __init__(self, row: sa.RowMapping, reason: Exception) -> None:
        self.job_id, self.name, self.state = str(row["job_id"]), str(row["name"]), row["state"]
        why = str(reason).splitlines() or [""]
        super().__init__(
            f"job {self.job_id} cannot be read by this Drafthouse ({type(reason).__name__}: {why[0]}): another version "
            f"may have written it. Use that one, or run `drafthouse cancel {self.job_id}` if it is still queued"
        )


def job_from_row(row: sa.RowMapping) -> Job:
    """Return the job in a row. Raises UnreadableJobError."""
    values = dict(row)
    try:
        progress = values.pop("progress_json")
        return Job(
            study=_study(values.pop("study_json")),
            progress=None if progress is None else Progress.model_validate_json(progress),
            attempt=values.pop("tries"),
            reuse_from_attempt=values.pop("reuse_from_try"),
            **values,
        )
    except Exception as reason:  # whatever it is: one bad row must not hide the others
        raise UnreadableJobError(row, reason) from reason


@functools.lru_cache(1024)
def _study(text: str) -> Study:
    """Parse a study. It is immutable, and pages that refresh themselves read the same ones every two seconds."""
    return Study.model_validate_json(text)


def readable(rows: Iterable[sa.RowMapping]) -> tuple[list[Job], list[UnreadableJobError]]:
    """Return the jobs in these rows, and the errors of the rows that cannot be read."""
    readable_jobs: list[Job] = []
    unreadable: list[UnreadableJobError] = []
    for row in rows:
        try:
            readable_jobs.append(job_from_row(row))
        except UnreadableJobError as error:
            unreadable.append(error)
    return readable_jobs, unreadable


def find_row(connection: sa.Connection, job_id: str, *, lock: bool = False) -> sa.RowMapping | None:
    """Return the job's row, or None. `lock` prevents changes by others until the transaction ends."""
    query = sa.select(jobs).where(jobs.c.job_id == job_id)
    return connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()


def get_row(connection: sa.Connection, job_id: str, *, lock: bool = False) -> sa.RowMapping:
    """Return the job's row, like `find_row`. Raises UserError if there is no job with this id."""
    row = find_row(connection, job_id, lock=lock)
    if row is None:
        raise UnknownNameError(f"there is no job {job_id}: `drafthouse jobs` lists all jobs")
    return row


def get_job(connection: sa.Connection, job_id: str, *, lock: bool = False) -> Job:
    """Return the job. Raises UserError if there is no job with this id, or if it cannot be read."""
    return job_from_row(get_row(connection, job_id, lock=lock))


def add_event(
    connection: sa.Connection,
    job_id: str,
    kind: str,
    detail: str = "",
    actor: str | None = None,
    *,
    at: datetime | None = None,
) -> None:
    """Record the event in the transaction that changes the job. `actor` is None for a worker. `at` is the database's
    time, if the caller has it.
    """
    row = {"job_id": job_id, "at": at or database_now(connection), "kind": kind, "detail": detail, "actor": actor}
    connection.execute(job_events.insert().values(row))


def check_priority(priority: int) -> None:
    """Raise UserError for a priority outside the range."""
    if abs(priority) > MAX_PRIORITY:
        raise UserError(f"priority {priority} is out of range: use -{MAX_PRIORITY} to {MAX_PRIORITY}")
