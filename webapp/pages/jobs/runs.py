"""The runs of one job on the Jobs page: a row for each that has ended, with the job's running ratio to the baseline."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs.table import ACTIVE, Job
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import number, times
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import Column, columns, show_rows
from webapp.shared.text import count

_REFRESH_EVERY = "1s"
_METRIC, _TTFT, _OTHERS = BY_NAME["output_tok_per_s"], BY_NAME["ttft_p50_ms"], BY_NAME["other_cpu_percent"]
_CELL = ("workload", "pattern", "concurrency")
#: A longer table scrolls.
_MAX_ROWS = 10
_COLUMNS = columns(
    state=Column("State", width=95, states={"completed": "green", "invalid": "orange", "failed": "red"}),
    arm={"width": 150},
    tok_per_s=Column(_METRIC.heading, help=_METRIC.label, width=105, alignment="right"),
    ratio=Column("Ratio so far", help="To the baseline, in this cell", width=90, alignment="right"),
    ttft=Column(_TTFT.heading, width=100, alignment="right"),
    others=Column(_OTHERS.heading, help=_OTHERS.label, width=95, alignment="right"),
    workload={"width": 160},
    load={"width": 80},
    repeat={"width": 65},
    error={"width": 300},
    pinned="",
)


def show(engine: sa.Engine, job: Job) -> None:
    st.fragment(_show, run_every=_REFRESH_EVERY if job.state in ACTIVE else None)(engine, job.job_id)


def _show(engine: sa.Engine, job_id: str) -> None:
    with show_user_errors():
        job = published_data.job_of_queue(engine, job_id)
        runs = pd.DataFrame() if published_data.publication() is None else published_data.results(job_id)
    counted = runs[runs["is_counted"]] if not runs.empty else runs
    if not counted.empty:
        rows = table(counted)
        height = "content" if len(rows) <= _MAX_ROWS else 390
        show_rows(rows, _COLUMNS, "The runs of this job that have ended, the last one first", height=height)
    compares = not counted.empty and any(ratio is not None for ratio in running_ratios(counted))
    st.caption(counts_sentence(job, len(counted), compares=compares))


def counts_sentence(job: Job, listed: int, *, compares: bool) -> str:
    """Say how many runs have ended and how many are still to be published; and what the ratio is, if there is one."""
    ended = max(listed, 0 if job.progress is None else job.progress.runs_done)
    if not ended:
        return "No run has ended yet. Each appears here when it ends."
    sentence = f"{count(ended, 'run')} ended"
    if waiting := ended - listed:
        sentence += f"; {waiting} still to be published"
    ratio = " The ratio so far is a running geometric mean over the repeats; see Results for the verdict."
    return f"{sentence}.{ratio if compares else ''}"


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the table of runs, the last run first. `runs`: the counted rows of `published_data.results`."""
    ordered = runs.sort_values(["started_at", "run_id"], kind="stable")
    ratios = running_ratios(ordered)
    rows = [
        {
            "state": [_state(row)],
            "arm": row["arm"],
            "tok_per_s": number(_known(row["output_tok_per_s"])),
            "ratio": "baseline" if row["is_baseline"] else times(ratio),
            "ttft": number(_known(row[_TTFT.name])),
            "others": number(_known(row[_OTHERS.name])),
            "workload": row["workload"],
            "load": row["pattern"],
            "repeat": int(row["repeat"]) + 1,
            "error": _why(row),
        }
        for row, ratio in zip(ordered.to_dict("records"), ratios, strict=True)
    ]
    frame = pd.DataFrame(rows[::-1])
    unknown = {"others"} if runs[_OTHERS.name].isna().all() else set()
    others = [name for name in frame if name not in {"state", "arm", "error", *unknown}]
    errors = ["error"] if frame["error"].notna().any() else []
    return frame[["state", "arm", *errors, *others]]


def running_ratios(runs: pd.DataFrame) -> list[float | None]:
    """Return for each run, in the order of measuring, the geometric mean of its arm's ratios to the baseline in this
    cell, over the repeats so far in which both are valid and of one host; None without any, and for the baseline.
    """
    rows = runs.to_dict("records")
    measured = {_key(row): _known(row["output_tok_per_s"]) for row in rows if _state(row) == "completed"}
    baseline = next((row["arm"] for row in rows if row["is_baseline"]), None)
    so_far: dict[Hashable, list[_Block]] = {}
    ratios: list[float | None] = []
    for row in rows:
        arm, cell, block = key = _key(row)
        if arm == baseline or key not in measured:
            ratios.append(None)
            continue
        blocks = so_far.setdefault((arm, cell), [])
        blocks.append(block)
        logs = [
            math.log(mine / theirs)
            for each in blocks
            if (mine := measured.get((arm, cell, each))) and (theirs := measured.get((baseline, cell, each)))
        ]
        ratios.append(math.exp(sum(logs) / len(logs)) if logs else None)
    return ratios


#: The repeat and the host of a run.
_Block = tuple[int, Any]


def _key(row: dict[Hashable, Any]) -> tuple[Any, tuple[Any, ...], _Block]:
    cell = tuple(None if pd.isna(row[name]) else row[name] for name in _CELL)
    return row["arm"], cell, (int(row["repeat"]), row["host"])


def _known(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def _why(row: dict[Hashable, Any]) -> str | None:
    """Return the first line of a failed run's error, or what makes a run invalid; None of any other."""
    if _state(row) == "invalid":
        return next(iter(row.get("why_invalid", ())), None)
    return str(row["error"]).splitlines()[0] if row["error"] and pd.notna(row["error"]) else None


def _state(row: dict[Hashable, Any]) -> str:
    if row["status"] != "completed":
        return "failed"
    return "invalid" if row["is_valid"] is not None and not row["is_valid"] else "completed"
