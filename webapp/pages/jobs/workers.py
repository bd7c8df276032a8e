"""The workers on the Jobs page: their state, hardware and engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs.fleet import worker_registry
from jobs.fleet.blocks import jobs_at_work
from jobs.fleet.worker_registry import WorkerInfo
from jobs.table import Job
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import Column, columns, show_rows
from webapp.shared.text import duration, literal

_REFRESH_EVERY = "10s"
_COLUMNS = ("state", "slot", "study", "job_id", "hardware", "gpus", "engines", "last_seen", "worker")
_CONFIG = columns(
    state=Column("State", width=80, states={"free": "green", "working": "blue", "waiting": "orange", "away": "gray"}),
    slot=Column("Slot", width=90),
    hardware={"width": 200},
    gpus=Column("GPUs", width=50),
    engines=Column("Engines", width=200),
    job_id={"label": "Current job", "width": 145},
    study={"width": 135},
    last_seen=Column("Last seen", width=118),
    worker=Column("Worker", width=150),
)


@st.fragment(run_every=_REFRESH_EVERY)
def show(engine: sa.Engine) -> None:
    st.subheader("Workers", anchor=False)
    with show_user_errors():
        workers = published_data.workers(engine)
        running = jobs_at_work(engine)
    if not workers:
        st.caption(
            "No worker has registered yet. Start one with `drafthouse up` here or `drafthouse worker` on another host."
        )
        return
    rows = table(workers, datetime.now(UTC), running)
    idle = dict.fromkeys(name for name in ("study", "job_id") if rows[name].isna().all())
    height = "content" if len(workers) <= 10 else 250
    show_rows(rows, _CONFIG | idle, "The workers, by their slots, most recently seen first", height=height)
    clocks = [literal(f"{sentence}.") for sentence in worker_registry.wrong_clocks(workers)]
    sentences = waiting(workers, datetime.now(UTC)) + keeping(workers, datetime.now(UTC)) + clocks
    if sentences:
        st.caption("  \n".join(sentences))
    if not any(worker.gpus for worker in workers):
        st.caption("No worker has an NVIDIA GPU: engines run on the CPU, and power and energy are not measured.")


def table(workers: Sequence[WorkerInfo], now: datetime, running: Mapping[str, Job]) -> pd.DataFrame:
    """Return the table of workers: present ones first, those of a host by slot; slots only if there are any."""
    rows = []
    for worker in sorted(workers, key=lambda of: (of.is_away(now), of.host if of.slot else "", of.slot_number)):
        job = None if worker.is_away(now) else running.get(worker.worker)
        rows.append(
            {
                "state": [_state(worker, now, running)],
                "slot": (worker.slot or "–").partition(";")[0],
                "hardware": worker.hardware,
                "gpus": f"{worker.gpus}" if worker.gpus else "none",
                "engines": engine_names(worker),
                "job_id": None if job is None else job.job_id,
                "study": None if job is None else f"{job.name} ({job.submitted_by})" if job.submitted_by else job.name,
                "last_seen": f"{duration((now - worker.last_seen).total_seconds())} ago",
                "worker": worker.worker,
            }
        )
    has_slots = any(worker.slot for worker in workers)
    return pd.DataFrame(rows, columns=[name for name in _COLUMNS if has_slots or name != "slot"])


def _state(worker: WorkerInfo, now: datetime, running: Mapping[str, Job]) -> str:
    if worker.is_away(now):
        return "away"
    if worker.worker in running:
        return "working"
    return "waiting" if worker.waits_for else "free"


def waiting(workers: Sequence[WorkerInfo], now: datetime) -> list[str]:
    """Say why each waiting worker starts no engine, and last what an administrator can do about GPUs."""
    kept = [worker for worker in workers if worker.waits_for and not worker.is_away(now)]
    kept.sort(key=lambda worker: (worker.host, worker.slot_number))
    remedy = "End the program, leave the GPU out (setting `gpus`), or measure beside it (`share_gpus = true`)."
    sentences = [
        f"{literal(worker.slot_name[:1].upper() + worker.slot_name[1:])} waits: {literal(worker.waits_for)}."
        for worker in kept
    ]
    of_gpus = any("GPU" in (worker.waits_for or "") for worker in kept)
    return [*sentences, remedy] if of_gpus else sentences


def keeping(workers: Sequence[WorkerInfo], now: datetime) -> list[str]:
    """Say which engines stay up for the next study."""
    return [
        f"{literal(worker.slot_name[:1].upper() + worker.slot_name[1:])} keeps {worker.keeps} for the next study."
        for worker in workers
        if worker.keeps is not None and not worker.is_away(now)
    ]


def engine_names(worker: WorkerInfo) -> str:
    """List the worker's own engines: `vllm 0.32.0+cpu, transformers 5.19.0`."""
    if worker.engines is None:
        return "not reported yet"
    own = [engine for engine in worker.engines if engine.kind != "endpoint"]
    return ", ".join(f"{engine.engine} {engine.version or ''}".strip() for engine in own) or "none"
