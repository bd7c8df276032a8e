"""The workers on the Jobs page: their state, hardware and engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs import queue, worker_registry
from jobs.worker_registry import WorkerInfo
from webapp.shared.errors import show_user_errors
from webapp.shared.text import duration

_REFRESH_EVERY = "10s"
_COLUMNS = ("state", "hardware", "gpus", "engines", "job_id", "last_seen", "worker")


@st.fragment(run_every=_REFRESH_EVERY)
def show(engine: sa.Engine) -> None:
    st.subheader("Workers", anchor=False)
    with show_user_errors():
        workers = worker_registry.list_workers(engine)
        running = {job.worker: job.job_id for job in queue.active(engine) if job.state == "running" and job.worker}
    if not workers:
        st.caption(
            "No worker has registered yet. Start one with `drafthouse up` here or `drafthouse worker` on another host."
        )
        return
    st.dataframe(
        table(workers, datetime.now(UTC), running),
        hide_index=True,
        height="content" if len(workers) <= 6 else 250,
        column_config=_column_config(),
        alt="The workers, most recently seen first",
    )
    if not any(worker.gpus for worker in workers):
        st.caption("No worker has an NVIDIA GPU: engines run on the CPU, and power and energy are not measured.")


def table(workers: Sequence[WorkerInfo], now: datetime, running: Mapping[str, str]) -> pd.DataFrame:
    """`running`: the job that each worker has claimed, by the job table, which is newer than what workers report."""
    rows = [
        {
            "state": [_state(worker, now, running)],
            "hardware": worker.hardware,
            "gpus": f"{worker.gpus}" if worker.gpus else "none",
            "engines": engine_names(worker),
            "job_id": "–" if worker.is_away(now) else running.get(worker.worker, "–"),
            "last_seen": f"{duration((now - worker.last_seen).total_seconds())} ago",
            "worker": worker.worker,
        }
        for worker in workers
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _state(worker: WorkerInfo, now: datetime, running: Mapping[str, str]) -> str:
    if worker.is_away(now):
        return "away"
    return "working" if worker.worker in running else "free"


def engine_names(worker: WorkerInfo) -> str:
    """`vllm 0.32.0+cpu, transformers 5.19.0`, without endpoints, which are not the worker's own engines."""
    if worker.engines is None:
        return "not reported yet"
    own = [engine for engine in worker.engines if engine.kind != "endpoint"]
    return ", ".join(f"{engine.engine} {engine.version or ''}".strip() for engine in own) or "none"


def _column_config() -> dict[str, Any]:
    text = st.column_config.TextColumn
    states = ["free", "working", "away"]
    return {
        "state": st.column_config.MultiselectColumn("State", options=states, color=["green", "blue", "gray"], width=80),
        "hardware": text("Hardware", width=165),
        "gpus": text("GPUs", width=50),
        "engines": text("Engines", width=200),
        "job_id": text("Current job", width=145),
        "last_seen": text("Last seen", width=95),
        "worker": text("Worker", width=200),
    }
