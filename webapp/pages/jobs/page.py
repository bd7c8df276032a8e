"""Jobs: running and queued jobs, workers, the history, and one job in detail."""

from __future__ import annotations

import streamlit as st

from webapp.pages.jobs import detail, sections, set_aside, workers
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors

st.title("Jobs")
with show_user_errors():
    jobs = sections.all_jobs(published_data.engine())
set_aside.show(published_data.engine())
if not jobs:
    sections.show_empty_state()
sections.show_active(jobs)
with show_user_errors():
    workers.show(published_data.engine())
if not jobs:
    st.stop()
sections.show_table(jobs)

with show_user_errors():
    label = url_widgets.choose(url_params.JOB, [url_params.job_label(job.name, job.job_id) for job in jobs])
    url_widgets.report_missing(url_params.JOB)
    detail.show(published_data.engine(), url_params.job_id_of(label))
