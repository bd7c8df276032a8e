"""The workers on the jobs page: their hardware, their engines, and whether they are there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs import worker_registry
from jobs.worker_registry import WorkerInfo
from webapp.shared.errors import show_user_errors
from webapp.shared.text import duration

_LOOK_EVERY = "10s"
_COLUMNS = ("state", "hardware", "gpus", "engines", "job_id", "last_seen", "worker")


@st.fragment(run_every=_LOOK_EVERY)
def show(engine: sa.Engine) -> None:
    st.subheader("Workers", anchor=False)
    with show_user_errors():
        workers = worker_registry.list_workers(engine)
    if not workers:
        st.caption("No worker has told of itself yet: `drafthouse up` starts one here, `drafthouse worker` elsewhere.")
        return
    st.dataframe(
        table(workers, datetime.now(UTC)),
        hide_index=True,
        height="content" if len(workers) <= 6 else 250,
        column_config=_columns(),
        alt="The workers, the last seen first",
    )
    if not any(worker.gpus for worker in workers):
        st.caption(
            "No worker has an NVIDIA GPU: engines run on processors, and there are no figures of power or energy."
        )


def table(workers: Sequence[WorkerInfo], now: datetime) -> pd.DataFrame:
    rows = [
        {
            "state": [_state(worker, now)],
            "hardware": worker.hardware,
            "gpus": f"{worker.gpus}" if worker.gpus else "none",
            "engines": engine_words(worker),
            "job_id": "–" if worker.is_away(now) else worker.job_id or "–",  # it may have ended without a last word
            "last_seen": f"{duration((now - worker.last_seen).total_seconds())} ago",
            "worker": worker.worker,
        }
        for worker in workers
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _state(worker: WorkerInfo, now: datetime) -> str:
    if worker.is_away(now):
        return "away"
    return "working" if worker.job_id else "free"


def engine_words(worker: WorkerInfo) -> str:
    """`vllm 0.32.0+cpu, transformers 5.19.0`; servers that run already are no engine of a worker."""
    if worker.engines is None:
        return "being asked"
    own = [each for each in worker.engines if each.kind != "endpoint"]
    return ", ".join(f"{each.engine} {each.version or ''}".strip() for each in own) or "none"


def _columns() -> dict[str, Any]:
    text = st.column_config.TextColumn
    states = ["free", "working", "away"]
    return {
        "state": st.column_config.MultiselectColumn("State", options=states, color=["green", "blue", "gray"], width=80),
        "hardware": text("Hardware", width=165),
        "gpus": text("GPUs", width=50),
        "engines": text("Engines", width=200),
        "job_id": text("Works on", width=145),
        "last_seen": text("Last seen", width=95),
        "worker": text("Worker", width=200),
    }
