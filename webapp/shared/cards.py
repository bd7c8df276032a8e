"""Cards, each a value between a label and a sentence, in a row; and the badges of jobs' states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from jobs.table import Job
from webapp.shared import published_data
from webapp.shared.text import count, literal

#: A longer value is set in smaller type.
_MAX_LARGE_LETTERS = 12
Colour = Literal["gray", "blue", "green", "red", "orange"]
#: In tables: a job that is done although some of its runs failed, or none failed and some are invalid.
_SOME_FAILED, _SOME_INVALID = "some failed", "some invalid"
#: State -> colour and icon, in tables and on badges.
BADGES: dict[str, tuple[Colour, str]] = {
    "queued": ("gray", ":material/schedule:"),
    "running": ("blue", ":material/progress_activity:"),
    "done": ("green", ":material/check_circle:"),
    _SOME_FAILED: ("orange", ":material/warning:"),
    _SOME_INVALID: ("orange", ":material/gpp_bad:"),
    "failed": ("red", ":material/error:"),
    "cancelled": ("orange", ":material/cancel:"),
}


@dataclass(frozen=True)
class Card:
    """A label, a value, and the sentence below it."""

    label: str
    value: str
    detail: str


def show_cards(cards: Sequence[Card]) -> None:
    """Show a row of cards of equal height."""
    with st.grid(len(cards), gap="small", min_column_width=190):
        for card in cards:
            with st.container(border=True, height="stretch", gap="xxsmall"):
                st.caption(card.label)
                if len(card.value) <= _MAX_LARGE_LETTERS:
                    st.header(literal(card.value), anchor=False)
                else:
                    st.subheader(literal(card.value), anchor=False)
                st.caption(literal(card.detail))


def state_word(job: Job) -> str:
    """Return the job's state as tables have it, a key of `BADGES`."""
    if job.has_failed_runs:
        return _SOME_FAILED
    return _SOME_INVALID if _invalid_runs(job) else job.state


def show_badge(job: Job) -> None:
    """Show the state, with what was lost: `done, 5 of 12 runs failed, 7 invalid`."""
    colour, icon = BADGES[state_word(job)]
    invalid = _invalid_runs(job)
    lost = (
        "" if not invalid else f", {invalid} invalid" if job.has_failed_runs else f", {count(invalid, 'run')} invalid"
    )
    stopping = job.cancel_requested and job.state == "running"
    st.badge("stopping" if stopping else job.outcome + lost, icon=icon, color="orange" if stopping else colour)


def _invalid_runs(job: Job) -> int:
    return published_data.invalid_runs(job.job_id) if job.state == "done" else 0
