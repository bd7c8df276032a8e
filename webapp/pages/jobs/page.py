"""Jobs: running and queued jobs, workers, the history page by page, and one job in detail."""

from __future__ import annotations

import sqlalchemy as sa
import streamlit as st

from jobs import queue
from lab.errors import UserError
from webapp.pages.jobs import detail, sections, set_aside, workers
from webapp.shared import curating, published_data, undo_banner, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.text import literal


def show_page() -> None:
    st.title("Jobs", anchor=False)
    with show_user_errors():
        _show(published_data.engine())


def _show(engine: sa.Engine) -> None:
    before, chosen_ones = st.query_params.get(url_params.BEFORE), sections.chosen_ones()
    try:
        page = queue.page(engine, before=before, **chosen_ones)
    except UserError as error:
        st.warning(f"{literal(error)}. Shown instead: the newest jobs.", icon=":material/link_off:")
        before, page = None, queue.page(engine, **chosen_ones)
    undo_banner.show(curating.UNDO)
    set_aside.show(engine)
    is_filtered = any(chosen_ones.values()) or sections.some_are_hidden()
    if not page.jobs and not is_filtered:
        sections.show_empty_state()
    active = queue.active(engine)
    sections.show_active(active)
    workers.show(engine)
    if page.jobs or is_filtered:
        sections.show_choices()
    if page.jobs:
        sections.show_table(page.jobs)
        sections.show_pages(page, before)
        chosen = st.session_state.get(url_params.JOB.key)
        default = next((job for job in active if job.state == "running"), page.jobs[0])
        job_id = url_params.job_id_of(chosen) if chosen else default.job_id
        if not curating.show_gone(job_id):
            detail.show(engine, job_id)
    curating.show_deleted()


if __name__ == "__main__":
    show_page()
