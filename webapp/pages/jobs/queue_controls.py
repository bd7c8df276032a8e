"""The queue on the jobs page: each waiting job's place, about when it starts, and what moves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa
import streamlit as st

from jobs import order
from jobs.table import Job
from jobs.worker_registry import WorkerInfo
from lab.study import Study
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.text import clock, count, duration, literal

Starts = Mapping[str, datetime | None]


def in_line(jobs: Sequence[Job]) -> list[Job]:
    """Return the queued jobs in the order in which workers take them."""
    return sorted((job for job in jobs if job.state == "queued"), key=order.queue_key)


def starts(jobs: Sequence[Job], workers: Sequence[WorkerInfo]) -> Starts:
    """About when each queued job starts, by what this host's runs took so far."""
    return order.estimated_starts(jobs, workers, takes_s=_takes_s)


def _takes_s(study: Study) -> float:
    return published_data.forecast(study).seconds


def place_words(job: Job, place: int, start: datetime | None, workers: Sequence[WorkerInfo], now: datetime) -> str:
    """`next in the queue, starts in about 3 min (04:12 UTC)`; why it cannot start where no worker may take it."""
    before = "next in the queue" if place == 1 else f"{count(place - 1, 'study', 'studies')} before it in the queue"
    if start is None:
        return f"{before}; {_why_not(job, workers, now)}"
    left_s = (start - now).total_seconds()
    if left_s < 1:
        return f"{before}; a worker is free and takes it now"
    return f"{before}; starts in about {duration(left_s)} ({clock(start)})"


def _why_not(job: Job, workers: Sequence[WorkerInfo], now: datetime) -> str:
    there = [worker for worker in workers if not worker.is_away(now)]
    if not there:
        return "no worker is there: `drafthouse up` or `drafthouse worker` starts one"
    names = ", ".join(sorted({worker.hardware for worker in there}))
    return f"it asks for {literal(job.study.hardware)}, and the workers that are there have {literal(names)}"


def show_place(job: Job, place: int, start: datetime | None, workers: Sequence[WorkerInfo]) -> None:
    words = place_words(job, place, start, workers, datetime.now(UTC))
    priority = f" · priority {job.priority}" if job.priority else ""
    st.caption(f"{words[0].upper()}{words[1:]}{priority}.")


def show_moves(job: Job, place: int, last: int) -> None:
    """Up, down, and the priority as a number; one alone in the queue has nowhere to go."""
    if last > 1:
        _move(job, "up", "arrow_upward", order.move_up, disabled=place == 1)
        _move(job, "down", "arrow_downward", order.move_down, disabled=place == last)
    with st.popover("Priority", icon=":material/low_priority:"):
        wanted = st.number_input(
            "Priority",
            -order.MAX_PRIORITY,
            order.MAX_PRIORITY,
            job.priority,
            step=1,
            key=f"priority-{job.job_id}-{job.priority}",
            help="Higher is measured first; equal ones in the order of their submission",
        )
        if st.button("Set the priority", key=f"set-priority-{job.job_id}", type="primary"):
            _do(lambda engine: order.reprioritise(engine, job.job_id, int(wanted or 0)))


def _move(job: Job, way: str, icon: str, move: Callable[[sa.Engine, str], None], *, disabled: bool) -> None:
    key = f"{way}-{job.job_id}"
    if st.button("", icon=f":material/{icon}:", help=f"Move {way} in the queue", key=key, disabled=disabled):
        _do(lambda engine: move(engine, job.job_id))


def _do(change: Callable[[sa.Engine], None]) -> None:
    with show_user_errors():
        change(published_data.engine())
    st.rerun()
