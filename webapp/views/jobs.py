"""Jobs: what is running now, what waits, what was; one job in detail."""

from __future__ import annotations

import streamlit as st

from webapp import choosing, data, job_detail, jobs_page, params, workers_list
from webapp.said import said_here

st.title("Jobs")
with said_here():
    jobs = jobs_page.all_jobs(data.engine())
if not jobs:
    jobs_page.show_empty_state()
jobs_page.show_active(jobs)
with said_here():
    workers_list.show(data.engine())
if not jobs:
    st.stop()
jobs_page.show_table(jobs)

with said_here():
    label = choosing.choose(params.JOB, [params.job_label(job.name, job.job_id) for job in jobs])
    choosing.say_missing(params.JOB)
    job_detail.show(data.engine(), params.job_id_of(label))
