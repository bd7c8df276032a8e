"""The badge that names a job's state, with its colour and icon."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from jobs.table import Job, State

Colour = Literal["gray", "blue", "green", "red", "orange"]
#: State -> label, colour and icon, in tables and on badges.
BADGES: dict[State, tuple[str, Colour, str]] = {
    "queued": ("queued", "gray", ":material/schedule:"),
    "running": ("running", "blue", ":material/progress_activity:"),
    "done": ("done", "green", ":material/check_circle:"),
    "failed": ("failed", "red", ":material/error:"),
    "cancelled": ("cancelled", "orange", ":material/cancel:"),
}


def show_badge(job: Job) -> None:
    label, colour, icon = BADGES[job.state]
    stopping = job.cancel_requested and job.state == "running"
    st.badge("stopping" if stopping else label, icon=icon, color="orange" if stopping else colour)
