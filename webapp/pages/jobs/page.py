"""Jobs: running and queued jobs, workers, the history page by page, and one job in detail."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
import streamlit as st

from jobs import queue
from jobs.table import Job
from lab.errors import UserError
from webapp.pages.jobs import detail, sections, set_aside, workers
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.text import literal


def show_page() -> None:
    st.title("Jobs")
    with show_user_errors():
        _show(published_data.engine())


def _show(engine: sa.Engine) -> None:
    before = st.query_params.get(url_params.BEFORE)
    try:
        page = queue.page(engine, before=before)
    except UserError as error:
        st.warning(f"{literal(error)}. Shown instead: the newest jobs.", icon=":material/link_off:")
        before, page = None, queue.page(engine)
    set_aside.show(engine)
    if not page.jobs:
        sections.show_empty_state()
    sections.show_active(queue.active(engine))
    workers.show(engine)
    if not page.jobs:
        return
    sections.show_table(page.jobs)
    sections.show_pages(page, before)
    label = url_widgets.choose(url_params.JOB, labels(page.jobs))
    url_widgets.report_missing(url_params.JOB)
    detail.show(engine, url_params.job_id_of(label))


def labels(jobs: Sequence[Job]) -> list[str]:
    """The labels of these jobs, and of one on another page of the history that the link or the reader has chosen."""
    names = [url_params.job_label(job.name, job.job_id) for job in jobs]
    wanted = st.session_state.get(url_params.JOB.key) or st.query_params.get(url_params.JOB.key, "")
    wanted_id = url_params.job_id_of(wanted)
    if wanted_id and all(job.job_id != wanted_id for job in jobs):
        try:
            other = queue.job(published_data.engine(), wanted_id)
        except UserError:
            return names  # the widget says that it does not exist
        names.append(url_params.job_label(other.name, other.job_id))
    return names


if __name__ == "__main__":
    show_page()
