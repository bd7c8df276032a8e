"""Jobs: what is running now, what waits, what was; one job in detail."""

from __future__ import annotations

import streamlit as st

from webapp import data, job_detail, jobs_page, params
from webapp.said import said_here

st.title("Jobs")
with said_here():
    jobs = jobs_page.all_jobs(data.engine())
jobs_page.show_empty_state(jobs)
jobs_page.show_active(jobs)
jobs_page.show_table(jobs)

with said_here():
    label = params.choose(params.JOB, [params.job_label(job.name, job.job_id) for job in jobs])
    params.say_missing(params.JOB)
    job_detail.show(data.engine(), params.job_id_of(label))
