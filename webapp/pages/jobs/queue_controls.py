"""The queue on the Jobs page: each queued job's position, estimated start, and the buttons that move it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa
import streamlit as st

from access.web import visitor
from jobs import order
from jobs.fleet.worker_registry import WorkerInfo, has_hardware, lacking_engines, lacking_hardware
from jobs.table import MAX_PRIORITY, Job
from lab.roles import Change
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.text import clock, count, duration, literal


def queue_sentence(
    job: Job, position: int, start: datetime | None, workers: Sequence[WorkerInfo], now: datetime
) -> str:
    """Say `Next in the queue; starts in about 3 min (04:12 UTC).`, or why it cannot start. Positions begin at 1."""
    ahead = "Next in the queue" if position == 1 else f"{count(position - 1, 'study', 'studies')} ahead in the queue"
    priority = f" · priority {job.priority}" if job.priority else ""
    left_s = 0.0 if start is None else (start - now).total_seconds()
    if start is None:
        when = _why_blocked(job, workers, now)
    else:
        when = "starting now" if left_s < 1 else f"starts in about {duration(left_s)} ({clock(start)})"
    return f"{ahead}; {when}{priority}."


def _why_blocked(job: Job, workers: Sequence[WorkerInfo], now: datetime) -> str:
    online = [worker for worker in workers if not worker.is_away(now)]
    if not online:
        return "no worker is online: start one with `drafthouse up` or `drafthouse worker`"
    if lacking := lacking_hardware(job.study, online):
        return literal(lacking)
    able = [worker for worker in online if has_hardware(worker.hardware, job.study.hardware)]
    if lacking := lacking_engines(job.study, able):
        return f"{literal(lacking)}: add it to engines.toml of a host, or cancel"
    return "the workers that could run it are waiting: see below for what"


def show_controls(job: Job, position: int, last: int) -> None:
    """Draw buttons up and down, unless it is the only queued job, and the priority; for administrators."""
    if not visitor.allowed_any(Change.ORDER):
        return
    if last > 1:
        _show_move(job, "up", ":material/arrow_upward:", order.move_up, disabled=position == 1)
        _show_move(job, "down", ":material/arrow_downward:", order.move_down, disabled=position == last)
    with st.popover("Priority", icon=":material/low_priority:"):
        entered = st.number_input(
            "Priority",
            -MAX_PRIORITY,
            MAX_PRIORITY,
            job.priority,
            step=1,
            key=f"priority-{job.job_id}-{job.priority}",
            help="Higher priorities run first; with equal priority, submitters alternate",
        )
        if st.button("Set the priority", key=f"set-priority-{job.job_id}", type="primary"):
            _change(lambda engine: order.reprioritise(engine, job.job_id, int(entered or 0), actor=visitor.actor()))


def _show_move(job: Job, direction: str, icon: str, move: Callable[..., None], *, disabled: bool) -> None:
    words, key = f"Move {direction} in the queue", f"{direction}-{job.job_id}"
    if st.button(words, icon=icon, help=words, key=key, disabled=disabled):
        _change(lambda engine: move(engine, job.job_id, actor=visitor.actor()))


def _change(change: Callable[[sa.Engine], None]) -> None:
    with show_user_errors():
        change(published_data.engine())
    st.rerun()
