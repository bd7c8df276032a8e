"""The queue on the Jobs page: each queued job's position, estimated start, and the buttons that move it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa
import streamlit as st

from access.web import visitor
from jobs import order
from jobs.table import MAX_PRIORITY, Job
from jobs.worker_registry import WorkerInfo, has_hardware, lacking_engines
from lab.roles import Change
from lab.study import Study
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.text import clock, count, duration, literal


def in_queue_order(jobs: Sequence[Job]) -> list[Job]:
    """The queued jobs in the order in which workers take them."""
    return order.queued_in_order(jobs)


def estimated_starts(jobs: Sequence[Job], workers: Sequence[WorkerInfo]) -> Mapping[str, datetime | None]:
    """When each queued job will start, by its id, estimated from the duration of earlier runs on this host."""
    return order.estimated_starts(jobs, workers, takes_s=_duration_s)


def _duration_s(study: Study) -> float:
    return published_data.forecast(study).seconds


def queue_sentence(
    job: Job, position: int, start: datetime | None, workers: Sequence[WorkerInfo], now: datetime
) -> str:
    """`Next in the queue; starts in about 3 min (04:12 UTC).`, or why no worker can start it. Positions begin at 1."""
    ahead = "Next in the queue" if position == 1 else f"{count(position - 1, 'study', 'studies')} ahead in the queue"
    priority = f" · priority {job.priority}" if job.priority else ""
    return f"{ahead}; {_start_words(job, start, workers, now)}{priority}."


def _start_words(job: Job, start: datetime | None, workers: Sequence[WorkerInfo], now: datetime) -> str:
    if start is None:
        return _why_blocked(job, workers, now)
    left_s = (start - now).total_seconds()
    return "starting now" if left_s < 1 else f"starts in about {duration(left_s)} ({clock(start)})"


def _why_blocked(job: Job, workers: Sequence[WorkerInfo], now: datetime) -> str:
    online = [worker for worker in workers if not worker.is_away(now)]
    if not online:
        return "no worker is online: start one with `drafthouse up` or `drafthouse worker`"
    able = [worker for worker in online if has_hardware(worker.hardware, job.study.hardware)]
    if lacking := lacking_engines(job.study, able):
        return f"{literal(lacking)}: add it to engines.toml of a host, or cancel"
    if able:
        return "the workers that could run it wait: see below for what"
    names = ", ".join(sorted({worker.hardware for worker in online}))
    return f"it requires {literal(job.study.hardware)}, but the workers online have {literal(names)}"


def show_position(job: Job, position: int, start: datetime | None, workers: Sequence[WorkerInfo]) -> None:
    st.caption(queue_sentence(job, position, start, workers, datetime.now(UTC)))


def show_controls(job: Job, position: int, last: int) -> None:
    """Buttons up and down, unless it is the only queued job, and the priority as a number; for administrators."""
    if not visitor.allowed_any(Change.ORDER):
        return
    if last > 1:
        _show_move(job, "up", "arrow_upward", order.move_up, disabled=position == 1)
        _show_move(job, "down", "arrow_downward", order.move_down, disabled=position == last)
    with st.popover("Priority", icon=":material/low_priority:"):
        entered = st.number_input(
            "Priority",
            -MAX_PRIORITY,
            MAX_PRIORITY,
            job.priority,
            step=1,
            key=f"priority-{job.job_id}-{job.priority}",
            help="Higher runs first; of equals, those who submitted take turns",
        )
        if st.button("Set the priority", key=f"set-priority-{job.job_id}", type="primary"):
            _change(lambda engine: order.reprioritise(engine, job.job_id, int(entered or 0), actor=visitor.actor()))


def _show_move(job: Job, direction: str, icon: str, move: Callable[..., None], *, disabled: bool) -> None:
    words, key = f"Move {direction} in the queue", f"{direction}-{job.job_id}"
    if st.button(words, icon=f":material/{icon}:", help=words, key=key, disabled=disabled):
        _change(lambda engine: move(engine, job.job_id, actor=visitor.actor()))


def _change(change: Callable[[sa.Engine], None]) -> None:
    with show_user_errors():
        change(published_data.engine())
    st.rerun()
