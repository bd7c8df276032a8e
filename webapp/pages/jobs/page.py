"""Jobs: running and queued jobs, the history page by page, one job in detail, and the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
import streamlit as st

from jobs import listing
from webapp.pages.jobs import detail, history, sections, set_aside, workers
from webapp.shared import curating, published_data, undo_banner, url_params
from webapp.shared.errors import show_user_errors


def show_page() -> None:
    st.title("Jobs", anchor=False)
    with show_user_errors():
        _show(published_data.engine())


def _show(engine: sa.Engine) -> None:
    undo_banner.show(curating.UNDO)
    set_aside.show(engine)
    counts = listing.counts(engine)
    if not counts:
        sections.show_empty_state()
    with_card = sections.show_active(engine, counts)
    if counts:
        _show_all(engine, counts, with_card)
    workers.show(engine)
    curating.show_deleted()


def _show_all(engine: sa.Engine, counts: Mapping[str, int], with_card: Sequence[str]) -> None:
    page = history.show(engine, counts)
    chosen = st.session_state.get(url_params.JOB.key)
    running = published_data.running_jobs(engine, sections.MOST_RUNNING) if counts.get("running") else []
    default = next((job.job_id for job in (*running, *page.jobs)), None)
    job_id = url_params.job_id_of(chosen) if chosen else default
    if job_id is not None and not curating.show_gone(job_id):
        if job_id not in with_card:
            sections.show_card(engine, job_id)
        detail.show(engine, job_id)


if __name__ == "__main__":
    show_page()
