"""Cards, each a value between a label and a sentence, in a row; and the badges of jobs' states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from jobs.table import NONE_VALID, SOME_FAILED, SOME_INVALID, Job
from webapp.shared import published_data
from webapp.shared.text import literal

#: A longer value is set in smaller type.
_MAX_LARGE_LETTERS = 12
Colour = Literal["gray", "blue", "green", "red", "orange"]
#: `Job.state_word` -> colour and icon, in tables and on badges.
BADGES: dict[str, tuple[Colour, str]] = {
    "queued": ("gray", ":material/schedule:"),
    "running": ("blue", ":material/progress_activity:"),
    "done": ("green", ":material/check_circle:"),
    SOME_FAILED: ("orange", ":material/warning:"),
    SOME_INVALID: ("orange", ":material/gpp_bad:"),
    NONE_VALID: ("red", ":material/gpp_bad:"),
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


def with_invalid_runs(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs with the numbers of their invalid runs as published."""
    invalid = published_data.invalid_runs()
    return [replace(job, runs_invalid=invalid.get(job.job_id)) for job in jobs]


def show_badge(job: Job) -> None:
    """Show the state, with what was lost: `done, 5 of 12 runs failed, 7 invalid`."""
    (job,) = with_invalid_runs([job])
    colour, icon = BADGES[job.state_word]
    stopping = job.cancel_requested and job.state == "running"
    st.badge("stopping" if stopping else job.outcome, icon=icon, color="orange" if stopping else colour)
